#include "difflet/compile/quant_report.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/compile/segment_values.h"
#include "difflet/graph/passes/extract.h"

namespace difflet::compile {
namespace {

using graph::passes::LinearQuantPlan;
using graph::passes::Segment;

// The part of the plan that this graph has layers of.
LinearQuantPlan plan_of(const graph::Graph& graph, const LinearQuantPlan& plan) {
  LinearQuantPlan part;
  for (const std::string& name : graph::passes::linear_weights(graph)) {
    if (const auto found = plan.find(name); found != plan.end()) {
      part.insert(*found);
    }
  }
  return part;
}

void check_measurement(const QuantMeasurement& what) {
  if (what.graph == nullptr || what.plan == nullptr || what.weights == nullptr ||
      what.backend == nullptr) {
    fail(ErrorCode::Internal, "internal error: a measurement of nothing");
  }
  check(!what.samples.empty(), ErrorCode::InvalidArgument, "there is no sample to measure on");
  // Throws for a name that is no layer's.
  (void)graph::passes::quantize_linear(*what.graph, *what.plan);
}

std::vector<SegmentValues> values_of(const QuantMeasurement& what,
                                     std::span<const Segment> segments) {
  std::vector<SegmentValues> values;
  values.reserve(what.samples.size());
  for (const NamedTensors& sample : what.samples) {
    values.emplace_back(sample, segments);
  }
  return values;
}

// Sums of squares, over the samples.
struct LayerSums {
  double error = 0, result = 0;
};

double relative_error(const LayerSums& sums) {
  if (!std::isfinite(sums.error) || !std::isfinite(sums.result)) {
    return std::numeric_limits<double>::infinity();
  }
  return sums.error == 0 ? 0 : std::sqrt(sums.error / sums.result);
}

// Sums over the samples of how two results differ.
struct OutputSums {
  double aa = 0, bb = 0, ab = 0, error = 0;
  std::int64_t non_finite = 0;

  void add(const HostTensor& quantised, const HostTensor& exact) {
    const std::vector<float> a = quantised.to_floats();
    const std::vector<float> b = exact.to_floats();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double x = a[i];
      const double y = b[i];
      non_finite += std::isfinite(x) ? 0 : 1;
      aa += x * x;
      bb += y * y;
      ab += x * y;
      error += (x - y) * (x - y);
    }
  }
  double relative() const { return error == 0 ? 0 : std::sqrt(error / bb); }
  double cosine() const {
    const double norms = std::sqrt(aa) * std::sqrt(bb);
    return norms > 0 ? ab / norms : aa == bb ? 1 : 0;
  }
};

}  // namespace

double layer_bound(graph::WeightQuant mode) {
  return mode == graph::WeightQuant::W8A8 ? 5e-2 : 2e-2;
}

void measure_layers(const QuantMeasurement& what, Context& context,
                    const std::function<void(const LayerError&)>& report) {
  check_measurement(what);
  const std::vector<Segment> segments = graph::passes::segments(*what.graph);
  std::vector<SegmentValues> values = values_of(what, segments);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const graph::Graph& graph = segments[i].graph;
    const LinearQuantPlan plan = plan_of(graph, *what.plan);
    const graph::Graph measured = graph::passes::compare_linear(graph, plan);
    const std::vector<runtime::Port> ports = runtime::output_ports(measured);
    const std::size_t own = graph.outputs().size();
    const auto executable = what.backend->load(measured, *what.weights, context, what.options);
    std::vector<LayerSums> sums(ports.size() - own);
    for (SegmentValues& sample : values) {
      const std::vector<HostTensor> results = executable->run(sample.inputs_of(i));
      for (std::size_t k = 0; k < sums.size(); ++k) {
        const std::vector<float> two = results[own + k].to_floats();
        sums[k].error += two[0];
        sums[k].result += two[1];
      }
      sample.after(i, results);
    }
    std::map<std::string_view, double> errors;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      errors.emplace(ports[own + k].name, relative_error(sums[k]));
    }
    for (const std::string& weight : graph::passes::linear_weights(graph)) {
      if (const auto error = errors.find(weight); error != errors.end()) {
        report({.weight = weight, .quant = plan.at(weight), .relative = error->second});
      }
    }
  }
}

void measure_outputs(const QuantMeasurement& what, Context& context,
                     const std::function<void(const OutputError&)>& report) {
  check_measurement(what);
  const std::vector<Segment> segments = graph::passes::segments(*what.graph);
  std::vector<SegmentValues> exact_values = values_of(what, segments);
  std::vector<SegmentValues> quantised_values = exact_values;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const graph::Graph& graph = segments[i].graph;
    std::vector<std::vector<HostTensor>> exact;
    {
      const auto executable = what.backend->load(graph, *what.weights, context, what.options);
      for (SegmentValues& sample : exact_values) {
        exact.push_back(executable->run(sample.inputs_of(i)));
        sample.after(i, exact.back());
      }
    }
    const auto executable =
        what.backend->load(graph::passes::quantize_linear(graph, plan_of(graph, *what.plan)),
                           *what.weights, context, what.options);
    std::vector<OutputSums> sums(graph.outputs().size());
    for (std::size_t s = 0; s < quantised_values.size(); ++s) {
      const std::vector<HostTensor> results = executable->run(quantised_values[s].inputs_of(i));
      for (std::size_t k = 0; k < sums.size(); ++k) {
        sums[k].add(results[k], exact[s][k]);
      }
      quantised_values[s].after(i, results);
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
      report({.block = segments[i].name,
              .output = graph.outputs()[k].name,
              .relative = sums[k].relative(),
              .cosine = sums[k].cosine(),
              .non_finite = sums[k].non_finite});
    }
  }
}

}  // namespace difflet::compile
