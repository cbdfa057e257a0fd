#include "difflet/compile/calibrate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/compile/int8_weight.h"
#include "difflet/compile/segment_values.h"
#include "difflet/graph/passes/extract.h"
#include "difflet/io/safetensors.h"

namespace difflet::compile {
namespace {

using graph::passes::Segment;

constexpr const char* kFormat = "difflet-calibration";
constexpr const char* kFormatKey = "format";
constexpr std::string_view kClassKey = "class/";  // and the component's name

void raise(ColumnMaxima& maxima, const std::string& layer, const HostTensor& seen) {
  const std::span<const float> values = seen.as<float>();
  check(std::ranges::all_of(values, [](float v) { return std::isfinite(v); }), ErrorCode::DataLoss,
        "layer '{}' is given numbers that are not finite", layer);
  std::vector<float>& largest = maxima[layer];
  largest.resize(values.size());
  std::ranges::transform(values, largest, largest.begin(),
                         [](float a, float b) { return std::max(a, b); });
}

// The layers of a segment, among those wanted.
std::vector<std::string> layers_of(const graph::Graph& graph, std::span<const std::string> wanted) {
  std::vector<std::string> layers = graph::passes::linear_weights(graph);
  std::erase_if(layers, [&](const std::string& name) {
    return std::ranges::find(wanted, name) == wanted.end();
  });
  return layers;
}

}  // namespace

void observe(const Observation& what, Context& context, ColumnMaxima& maxima,
             const std::function<void(const std::string&)>& segment) {
  require(what.graph != nullptr && what.weights != nullptr && what.backend != nullptr,
          "an observation of nothing");
  // Throws for a name that is no layer's.
  (void)graph::passes::observe_linear(*what.graph, what.layers);
  const std::vector<Segment> segments = graph::passes::segments(*what.graph);
  std::vector<SegmentValues> values;
  values.reserve(what.samples.size());
  for (const NamedTensors& sample : what.samples) {
    values.emplace_back(sample, segments);
  }
  for (std::size_t i = 0; i < segments.size(); ++i) {
    segment(segments[i].name);
    const graph::Graph observed =
        graph::passes::observe_linear(segments[i].graph, layers_of(segments[i].graph, what.layers));
    const std::vector<runtime::Port> ports = runtime::output_ports(observed);
    const std::size_t own = segments[i].graph.outputs().size();
    const auto executable = what.backend->load(observed, *what.weights, context, what.options);
    for (SegmentValues& sample : values) {
      const std::vector<HostTensor> results = executable->run(sample.inputs_of(i));
      for (std::size_t k = own; k < ports.size(); ++k) {
        raise(maxima, ports[k].name, results[k]);
      }
      sample.after(i, results);
    }
  }
}

void write_statistics(const std::filesystem::path& path, const ModelStatistics& statistics) {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata{{kFormatKey, kFormat}};
  for (const auto& [component, one] : statistics) {
    metadata.emplace(std::string(kClassKey) + component, one.class_name);
    for (const auto& [layer, maxima] : one.layers) {
      tensors.emplace(component + "/" + layer,
                      HostTensor::from(Shape{static_cast<std::int64_t>(maxima.size())},
                                       std::span<const float>(maxima)));
    }
  }
  io::write_safetensors(path, tensors, metadata);
}

ModelStatistics read_statistics(const std::filesystem::path& path) {
  const io::SafetensorsFile file = io::SafetensorsFile::open(path);
  const auto format = file.metadata().find(kFormatKey);
  check(format != file.metadata().end() && format->second == kFormat, ErrorCode::InvalidArgument,
        "'{}' is not a file of calibration statistics", path.string());
  ModelStatistics all;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(kClassKey)) {
      all[key.substr(kClassKey.size())].class_name = value;
    }
  }
  const auto damaged = [&](bool ok, std::string_view name, std::string_view what) {
    check(ok, ErrorCode::DataLoss, "{}: tensor '{}' {}", path.string(), name, what);
  };
  damaged(file.unsupported().empty(),
          file.unsupported().empty() ? "" : file.unsupported().begin()->first, "is not F32");
  for (const auto& [name, entry] : file.entries()) {
    const std::size_t slash = name.find('/');
    const auto component = all.find(name.substr(0, slash));
    damaged(slash != std::string::npos && component != all.end(), name, "is of no component");
    damaged(entry.dtype == DType::F32 && entry.shape.rank() == 1, name, "is not F32 of rank 1");
    const HostTensor maxima = file.tensor(name);
    const std::span<const float> values = maxima.as<float>();
    damaged(std::ranges::all_of(values, [](float v) { return std::isfinite(v) && v >= 0; }), name,
            "holds what is no magnitude");
    component->second.layers.emplace(name.substr(slash + 1),
                                     std::vector<float>(values.begin(), values.end()));
  }
  return all;
}

const Statistics& statistics_of(const ModelStatistics& all, const std::string& component,
                                const std::string& class_name,
                                const graph::passes::LinearQuantPlan& plan,
                                const io::Checkpoint& checkpoint) {
  const auto found = all.find(component);
  check(found != all.end(), ErrorCode::InvalidArgument,
        "the calibration does not fit: it has no statistics of {}", component);
  const Statistics& one = found->second;
  check(one.class_name == class_name, ErrorCode::InvalidArgument,
        "the calibration does not fit: its {} is a {}, this one is a {}", component, one.class_name,
        class_name);
  for (const auto& [layer, quant] : plan) {
    const auto maxima = one.layers.find(layer);
    check(maxima != one.layers.end(), ErrorCode::InvalidArgument,
          "the calibration does not fit: {} has a layer '{}', of which it says nothing", component,
          layer);
    const std::int64_t columns = checkpoint.entry(layer).shape[1];
    check(static_cast<std::int64_t>(maxima->second.size()) == columns, ErrorCode::InvalidArgument,
          "the calibration does not fit: it has {} columns of {}'s '{}', which has {}",
          maxima->second.size(), component, layer, columns);
  }
  return one;
}

SmoothVectors smooth_vectors(const graph::passes::LinearQuantPlan& plan, const ColumnMaxima& maxima,
                             const io::Checkpoint& checkpoint, ThreadPool& threads,
                             const std::function<void()>& check_stop) {
  SmoothVectors vectors;
  for (const auto& [layer, quant] : plan) {
    if (!quant.smooth) {
      continue;
    }
    check_stop();
    const auto seen = maxima.find(layer);
    check(seen != maxima.end(), ErrorCode::InvalidArgument,
          "the calibration says nothing of layer '{}'", layer);
    vectors.emplace(layer, naming_file(checkpoint, layer, [&] {
                      return smoothing(layer, seen->second, checkpoint.tensor(layer), threads);
                    }));
    checkpoint.release(layer);
  }
  return vectors;
}

}  // namespace difflet::compile
