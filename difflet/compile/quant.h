// Which layers of a component have int8 weights: asked for by options, or as a quantised folder says.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/graph/passes/quantize_linear.h"
#include "difflet/io/checkpoint.h"
#include "difflet/models/common/component.h"

namespace difflet::compile {

using graph::WeightQuant;
using graph::passes::LinearQuantPlan;

// What --quant and --quant-groups say.
struct QuantRequest {
  std::optional<WeightQuant> mode;  // nothing: floats stay floats, a quantised folder is as it is
  // By the name of a group or of a weight, or a glob over both; of several that match a layer the
  // weight's name counts, then the longest glob, then the group. A glob does not mean what is quantised
  // only where it is named.
  std::map<std::string, WeightQuant, std::less<>> groups;

  bool empty() const { return !mode && groups.empty(); }
  // Whether any layer is to have int8 weights.
  bool quantises() const;
};

// From the options' text, "w8a16" and "double.mlp=w8a8,single.*=none". Throws InvalidArgument for an
// unknown mode and for a group without a mode or named twice.
QuantRequest parse_quant_request(const std::optional<std::string>& mode,
                                 const std::optional<std::string>& groups);
// Throws InvalidArgument, naming the modes.
WeightQuant parse_weight_quant(std::string_view text);

// A layer that a rule of its model names.
struct QuantLayer {
  std::string group;
  bool only_named = false;  // models::QuantRule
  WeightQuant mode = WeightQuant::None;
  bool smooth = false;  // w8a8 only
  std::string kept;     // why it keeps its float weight although int8 was asked for; else empty

  bool operator==(const QuantLayer&) const = default;
};

// The layers of one component.
struct ComponentQuant {
  WeightQuant mode = WeightQuant::None;  // of the layers, where nothing else is said
  std::map<std::string, QuantLayer, std::less<>> layers;  // by the weight's name in the checkpoint
  bool stored = false;                                    // the folder holds the int8 weights

  LinearQuantPlan plan() const;
  // "w8a8+smooth", "w8a8,double.mlp=none"; "mixed" where layers of a group differ. Empty without a plan.
  std::string label() const;
};

// All layers of a float checkpoint that the model's rules name, with their float weights. A rule
// matches tensors of rank 2 that the model reads.
ComponentQuant float_layers(const models::Component& model, const io::Checkpoint& checkpoint);

// `layers` as `request` asks for them; a group that is none of theirs is passed over. Of a quantised
// folder they stay as they are: `origin` names it where that is not what the request wants
// (InvalidArgument, also for a mode that a layer cannot have). A request for what is stored is none for
// a change: its mode, or a layer's own, or that of a layer which was kept for its error.
ComponentQuant requested_layers(const ComponentQuant& layers, const QuantRequest& request,
                                const std::string& origin);

// What a request is checked against: the components that are run together.
struct QuantSubject {
  std::string_view class_name;
  const models::Component* model = nullptr;
  const io::Checkpoint* checkpoint = nullptr;
  const ComponentQuant* quant = nullptr;
};
// Throws InvalidArgument when the request asks for int8 weights and no subject has a layer for them,
// when a group is none of theirs (naming those), and when it means only layers that stay as they are
// (naming one).
void check_quant_request(std::span<const QuantSubject> subjects, const QuantRequest& request);

// "quantization_config" of a config.json:
// {"quant_method": "difflet", "format": 1, "mode": "w8a8", "layers": {"<weight>": "w8a8+smooth"},
//  "kept": {"<weight>": "<reason>"}}. "mode" is "none" where only layers that were named have int8
// weights; a layer that was not asked for is in neither object.
inline constexpr const char* kQuantConfigField = "quantization_config";
Json quant_config(const ComponentQuant& quant);
// Nothing when `config` has no such field. Throws DataLoss, naming the field, for what is not of that
// form, for a layer that the model's rules do not name and for a mode that none of the layers has;
// Unsupported for another method or format. `origin` names the file.
std::optional<ComponentQuant> read_quant_config(const Json& config, const std::string& origin,
                                                const models::Component& model);
// Adds the layers of a quantised folder that its config does not name: they have float weights.
void add_float_layers(ComponentQuant& quant, const models::Component& model,
                      const io::Checkpoint& checkpoint);

}  // namespace difflet::compile
