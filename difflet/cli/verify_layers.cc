#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"
#include "difflet/cli/verify_quant.h"
#include "difflet/compile/quant_report.h"
#include "difflet/graph/enum_names.h"

namespace difflet::cli {
namespace {

using compile::WeightQuant;

std::string_view mode_name(WeightQuant mode) { return graph::enum_name(mode); }

// Float weights of one folder beside the int8 ones of another.
class BothForms final : public runtime::WeightSource {
 public:
  BothForms(const QuantPair& pair, ThreadPool& threads)
      : plain_(pair.plain->checkpoint(), [] { check_stop(); }),
        quantised_(pair.quantised->weights(threads, [] { check_stop(); })) {
    for (const auto& [weight, quant] : pair.quantised->quant().plan()) {
      names_.insert({graph::passes::int8_name(weight), graph::passes::scale_name(weight),
                     graph::passes::smooth_name(weight)});
    }
  }
  HostTensor whole(const graph::ParamDecl& param) const override {
    return source(param).whole(param);
  }
  void done(const graph::ParamDecl& param) const override { source(param).done(param); }

 private:
  const runtime::WeightSource& source(const graph::ParamDecl& param) const {
    if (names_.contains(param.name)) {
      return *quantised_;
    }
    return plain_;
  }

  compile::CheckpointWeights plain_;
  std::unique_ptr<runtime::WeightSource> quantised_;
  std::set<std::string, std::less<>> names_;
};

// Keeps what a measurement points to.
struct Subject {
  Subject(const QuantPair& pair, const compile::BuildOptions& build, ThreadPool& threads)
      : graph(pair.plain->trace_float(pair.shapes, build.dtype)),
        plan(pair.quantised->quant().plan()),
        weights(pair, threads) {}
  compile::QuantMeasurement measurement(std::span<const compile::NamedTensors> samples,
                                        const compile::BuildOptions& build) const {
    return {.graph = &graph,
            .plan = &plan,
            .weights = &weights,
            .samples = samples,
            .backend = build.backend,
            .options = build.backend_options};
  }

  graph::Graph graph;
  graph::passes::LinearQuantPlan plan;
  BothForms weights;
};

void print_layer(const OptionValues& options, const std::string& component,
                 const std::string& group, const compile::LayerError& layer) {
  const double bound = compile::layer_bound(layer.quant.mode);
  if (options.flag("json")) {
    print_event({{"event", "layer"},
                 {"component", component},
                 {"layer", layer.weight},
                 {"group", group},
                 {"mode", mode_name(layer.quant.mode)},
                 {"smooth", layer.quant.smooth},
                 {"relative", layer.relative},
                 {"bound", bound},
                 {"within_bound", layer.within_bound()}});
    return;
  }
  print(fmt::format("{:<16} {:<52} {:<5}{} {:.2e}{}\n", group, layer.weight,
                    mode_name(layer.quant.mode), layer.quant.smooth ? " smooth" : "",
                    layer.relative,
                    layer.within_bound() ? "" : fmt::format("  over the bound {:.0e}", bound)));
}

// The layers of one group.
struct GroupSummary {
  std::int64_t layers = 0;
  double sum = 0;
  compile::LayerError worst;
};

void print_groups(const OptionValues& options, const std::string& component,
                  const std::map<std::string, GroupSummary>& groups) {
  for (const auto& [name, group] : groups) {
    const double mean = group.sum / static_cast<double>(group.layers);
    if (options.flag("json")) {
      print_event({{"event", "group"},
                   {"component", component},
                   {"group", name},
                   {"layers", group.layers},
                   {"mean", mean},
                   {"worst", group.worst.relative},
                   {"worst_layer", group.worst.weight}});
    } else {
      print(fmt::format("{} {}: {} layers, mean {:.2e}, worst {:.2e} ({})\n", component, name,
                        group.layers, mean, group.worst.relative, group.worst.weight));
    }
  }
}

void print_kept(const OptionValues& options, const QuantPair& pair) {
  for (const auto& [weight, layer] : pair.quantised->quant().layers) {
    if (layer.kept.empty()) {
      continue;
    }
    if (options.flag("json")) {
      print_event({{"event", "kept"},
                   {"component", pair.name},
                   {"layer", weight},
                   {"group", layer.group},
                   {"reason", layer.kept}});
    } else {
      print(fmt::format("{:<16} {:<52} kept: {}\n", layer.group, weight, layer.kept));
    }
  }
}

}  // namespace

LayersFound print_layers(const OptionValues& options, const QuantPair& pair,
                         std::span<const compile::NamedTensors> samples,
                         const compile::BuildOptions& build, Context& context) {
  if (!options.flag("json")) {
    print(fmt::format("{}: error of each layer on the activations of {} run{}, {}\n", pair.name,
                      samples.size(), samples.size() == 1 ? "" : "s",
                      build.backend->describe(build.backend_options)));
  }
  const Subject subject(pair, build, context.threads);
  LayersFound found;
  std::map<std::string, GroupSummary> groups;
  std::vector<std::string> over;
  const auto& layers = pair.quantised->quant().layers;
  compile::measure_layers(
      subject.measurement(samples, build), context, [&](const compile::LayerError& layer) {
        check_stop();
        const std::string& group = layers.at(layer.weight).group;
        print_layer(options, pair.name, group, layer);
        GroupSummary& summary = groups[group];
        ++summary.layers;
        summary.sum += layer.relative;
        if (summary.worst.weight.empty() || layer.relative > summary.worst.relative) {
          summary.worst = layer;
        }
        ++found.layers;
        if (!layer.within_bound()) {
          ++found.over_bound;
          over.push_back(layer.weight);
        }
      });
  print_kept(options, pair);
  print_groups(options, pair.name, groups);
  if (!over.empty() && !options.flag("json")) {
    // Prompts other than those that a folder was calibrated on can find more than quantize did.
    print(fmt::format("{}: {} over the bound, better {}: --quant-groups {}=none\n", pair.name,
                      over.size(),
                      options.given("quantized")
                          ? "left out when the folder is made again with difflet quantize"
                          : "kept as they are (difflet quantize, calibrated, keeps those it finds)",
                      fmt::join(over, "=none,")));
  }
  return found;
}

double print_outputs(const OptionValues& options, const QuantPair& pair,
                     const compile::NamedTensors& sample, const compile::BuildOptions& build,
                     Context& context) {
  const Subject subject(pair, build, context.threads);
  std::set<std::string> own;
  for (const graph::Output& output : subject.graph.outputs()) {
    own.insert(output.name);
  }
  double least = 1;
  const auto report = [&](const compile::OutputError& output) {
    check_stop();
    const bool result = own.contains(output.output);
    if (options.flag("json")) {
      print_event({{"event", "output"},
                   {"component", pair.name},
                   {"block", output.block},
                   {"output", output.output},
                   {"result", result},
                   {"relative", output.relative},
                   {"cosine", output.cosine},
                   {"non_finite", output.non_finite}});
    } else if (result || output.relative > 0) {
      print(fmt::format(
          "{}, all layers: {:<34} {:<14} error {:.2e}, cosine {:.7f}{}\n", pair.name, output.block,
          output.output, output.relative, output.cosine,
          output.non_finite > 0 ? fmt::format("; {} not finite", output.non_finite) : ""));
    }
    if (result) {
      // NaN is below every bound.
      least = output.cosine >= least ? least : output.cosine;
      least = output.non_finite == 0 ? least : -1;
    }
  };
  compile::measure_outputs(subject.measurement(std::span(&sample, 1), build), context, report);
  return least;
}

WeightQuant coarsest_mode(std::span<const QuantPair> pairs) {
  WeightQuant coarsest = WeightQuant::None;
  for (const QuantPair& pair : pairs) {
    for (const auto& [weight, quant] : pair.quantised->quant().plan()) {
      coarsest = std::max(coarsest, quant.mode);
    }
  }
  return coarsest;
}

double least_cosine(const OptionValues& options, WeightQuant mode) {
  return options.given("least-cosine") ? options.number("least-cosine")
         : mode == WeightQuant::W8A8   ? 0.998
                                       : 0.9995;
}

double least_psnr(const OptionValues& options, WeightQuant mode) {
  return options.given("least-psnr") ? options.number("least-psnr")
         : mode == WeightQuant::W8A8 ? 30
                                     : 40;
}

}  // namespace difflet::cli
