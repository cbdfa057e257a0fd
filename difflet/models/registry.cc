#include "difflet/models/registry.h"

#include <algorithm>
#include <array>

#include "difflet/base/error.h"
#include "difflet/models/autoencoders/kl.h"
#include "difflet/models/encoders/clip.h"
#include "difflet/models/encoders/t5.h"
#include "difflet/models/flux/transformer.h"

namespace difflet::models {
namespace {

struct Row {
  std::string_view class_name;
  std::string_view model_type;  // transformers' name for it
  std::unique_ptr<Component> (*make)(ConfigReader&);
};

template <typename T, auto Read>
std::unique_ptr<Component> make(ConfigReader& reader) {
  return std::make_unique<T>(Read(reader));
}

constexpr std::array kComponents{
    Row{"FluxTransformer2DModel", "", make<flux::Transformer, flux::read_config>},
    Row{"CLIPTextModel", "clip_text_model",
        make<encoders::ClipTextModel, encoders::read_clip_config>},
    Row{"CLIPTextModelWithProjection", "",
        make<encoders::ClipTextModel, encoders::read_clip_config>},
    Row{"T5EncoderModel", "t5", make<encoders::T5Encoder, encoders::read_t5_config>},
    Row{"AutoencoderKL", "", make<autoencoders::KlDecoder, autoencoders::read_kl_config>},
};

}  // namespace

std::vector<std::string> component_classes() {
  std::vector<std::string> names;
  names.reserve(kComponents.size());
  for (const Row& row : kComponents) {
    names.emplace_back(row.class_name);
  }
  return names;
}

std::string component_class(const Json& config, std::string_view origin) {
  check(config.is_object(), ErrorCode::DataLoss, "{}: expected a JSON object", origin);
  const auto text = [&](const char* key) -> std::string {
    const auto it = config.find(key);
    return it != config.end() && it->is_string() ? it->get<std::string>() : "";
  };
  if (const std::string name = text("_class_name"); !name.empty()) {
    return name;
  }
  const auto architectures = config.find("architectures");
  if (architectures != config.end() && architectures->is_array() && !architectures->empty() &&
      architectures->front().is_string()) {
    return architectures->front().get<std::string>();
  }
  const std::string type = text("model_type");
  for (const Row& row : kComponents) {
    if (!type.empty() && row.model_type == type) {
      return std::string(row.class_name);
    }
  }
  fail(ErrorCode::Unsupported,
       "{}: no _class_name, architectures or known model_type says what this is", origin);
}

void check_component_class(const Json& config, std::string_view origin,
                           std::string_view class_name) {
  const auto row_of = [](std::string_view name) {
    return std::ranges::find(kComponents, name, &Row::class_name);
  };
  const auto* const listed = row_of(class_name);
  std::string own;
  try {
    own = component_class(config, origin);
  } catch (const Error&) {
    return;  // it does not say; the one who lists it does
  }
  const auto* const found = row_of(own);
  check(found == kComponents.end() || listed == kComponents.end() || found->make == listed->make,
        ErrorCode::DataLoss, "{}: this is a {}, listed as a {}", origin, own, class_name);
}

std::unique_ptr<Component> make_component(std::string_view class_name, ConfigReader& reader) {
  for (const Row& row : kComponents) {
    if (row.class_name == class_name) {
      return row.make(reader);
    }
  }
  fail(ErrorCode::Unsupported, "{}: component class {} is not supported; known are {}",
       reader.origin(), class_name, fmt::join(component_classes(), ", "));
}

}  // namespace difflet::models
