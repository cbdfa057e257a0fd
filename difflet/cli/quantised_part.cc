#include "difflet/cli/quantised_part.h"

#include "difflet/base/units.h"
#include "difflet/cli/command.h"

namespace difflet::cli {
namespace {

struct Totals {
  std::uint64_t before = 0, after = 0;
};

Totals totals_of(const QuantisedPart& part) {
  Totals totals;
  for (const auto& tensor : compile::quantised_tensors(*part.source, {})) {
    totals.before += tensor.bytes();
  }
  for (const auto& tensor : compile::quantised_tensors(*part.source, part.quant.plan())) {
    totals.after += tensor.bytes();
  }
  return totals;
}

}  // namespace

Json as_json(const QuantisedPart& part) {
  Json groups = Json::array();
  for (const compile::GroupSize& size : group_sizes(part.quant, part.source->checkpoint())) {
    groups.push_back({{"group", size.group},
                      {"layers", size.layers},
                      {"kept", size.kept},
                      {"bytes_before", size.before},
                      {"bytes_after", size.after}});
    if (const auto worst = part.worst.find(size.group); worst != part.worst.end()) {
      groups.back()["worst_error"] = worst->second;
    }
  }
  const Totals totals = totals_of(part);
  return {{"event", "component"},
          {"name", part.name},
          {"class", part.source->class_name()},
          {"quant", part.quant.label()},
          {"smoothed", part.smooth.size()},
          {"measured", !part.samples.empty()},
          {"groups", groups},
          {"bytes_before", totals.before},
          {"bytes_after", totals.after},
          {"kept", compile::quant_config(part.quant).at("kept")}};
}

void print_part(const QuantisedPart& part) {
  const Totals totals = totals_of(part);
  print(fmt::format("{} ({}): {} -> {}\n", part.name, part.quant.label(),
                    readable_bytes(totals.before), readable_bytes(totals.after)));
  for (const compile::GroupSize& size : group_sizes(part.quant, part.source->checkpoint())) {
    const auto worst = part.worst.find(size.group);
    print(fmt::format(
        "  {:<18} {:>4} layers, {:>3} kept, {:>10} -> {:>10}{}\n", size.group, size.layers,
        size.kept, readable_bytes(size.before), readable_bytes(size.after),
        worst == part.worst.end() ? ""
                                  : fmt::format(", relative error up to {:.1e}", worst->second)));
  }
  for (const auto& [name, layer] : part.quant.layers) {
    if (layer.mode == graph::WeightQuant::None && !layer.kept.empty()) {
      print(fmt::format("  kept {}: {}\n", name, layer.kept));
    }
  }
}

}  // namespace difflet::cli
