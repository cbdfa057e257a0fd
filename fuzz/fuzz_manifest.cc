// A hostile manifest, of an artifact or of a weight set: refused, or one that its own text gives back.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/artifact/manifest.h"

namespace {

namespace artifact = difflet::artifact;

// With the key that its identity has, which no mutation finds; other texts as they are.
std::string with_its_key(std::string_view text) {
  difflet::Json json = difflet::parse_json(text, "manifest.json");
  if (json.is_object() && json.contains("key") && json.contains("identity")) {
    json["key"] = key_of(artifact::identity_from_json(json["identity"], "identity"));
  }
  return json.dump();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  difflet::fuzz::refuse_or_accept([&] {
    const artifact::Manifest manifest =
        artifact::parse_manifest(with_its_key(text), "manifest.json");
    const std::string printed = to_text(manifest);
    difflet::fuzz::law(artifact::parse_manifest(printed, "printed") == manifest,
                       "parse(print(x)) == x");
  });
  return difflet::fuzz::refuse_or_accept([&] {
    const artifact::WeightsManifest manifest =
        artifact::parse_weights_manifest(text, "manifest.json");
    const std::string printed = to_text(manifest);
    difflet::fuzz::law(artifact::parse_weights_manifest(printed, "printed") == manifest,
                       "parse(print(x)) == x");
  });
}
