// Statistics of the activations that layers see, from which smoothing is made (int8_weight.h).
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "difflet/base/context.h"
#include "difflet/compile/quantized_weights.h"
#include "difflet/compile/staged.h"
#include "difflet/graph/passes/quantize_linear.h"

namespace difflet::compile {

// By the weight's name: the largest magnitude of each column of the layer's x, [K].
using ColumnMaxima = std::map<std::string, std::vector<float>, std::less<>>;

struct Observation {
  const graph::Graph* graph = nullptr;  // unquantised, as traced
  std::span<const std::string> layers;  // weights of linear layers of the graph
  const runtime::WeightSource* weights = nullptr;
  std::span<const NamedTensors> samples;  // all inputs of the graph, once for each run
  const runtime::Backend* backend = nullptr;
  runtime::BackendOptions options;
};

// Raises `maxima` to what the layers see in the samples. One segment of the graph
// (graph/passes/extract.h) is loaded at a time; `segment` hears its name before, and may throw to
// stop. Memory: a segment's weights, and for each sample the values that pass between two of them.
// Throws what loading throws, InvalidArgument for samples that do not fit and DataLoss, naming the
// layer, for an x that is not finite.
void observe(const Observation& what, Context& context, ColumnMaxima& maxima,
             const std::function<void(const std::string&)>& segment);

// Of one component.
struct Statistics {
  std::string class_name;
  ColumnMaxima layers;
  bool operator==(const Statistics&) const = default;
};
using ModelStatistics = std::map<std::string, Statistics, std::less<>>;  // by component

// As safetensors: "<component>/<weight>" f32 [K], the classes in the metadata. Reading throws
// InvalidArgument for a safetensors file of another kind, DataLoss for a damaged one.
void write_statistics(const std::filesystem::path& path, const ModelStatistics& statistics);
ModelStatistics read_statistics(const std::filesystem::path& path);

// Those of `component`. Throws InvalidArgument, naming what differs, when they are of another model: the
// class, a layer of `plan` that is missing or has another number of columns.
const Statistics& statistics_of(const ModelStatistics& all, const std::string& component,
                                const std::string& class_name,
                                const graph::passes::LinearQuantPlan& plan,
                                const io::Checkpoint& checkpoint);

// Vectors for the smoothed layers of `plan`. Reads their weights, one at a time.
SmoothVectors smooth_vectors(const graph::passes::LinearQuantPlan& plan, const ColumnMaxima& maxima,
                             const io::Checkpoint& checkpoint, ThreadPool& threads,
                             const std::function<void()>& check_stop);

}  // namespace difflet::compile
