// A hostile safetensors file: refused, or every tensor lies inside it with the size of its shape.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "fuzz/fuzz.h"

#include "difflet/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using difflet::fuzz::law;
  return difflet::fuzz::refuse_or_accept([&] {
    const auto bytes = std::as_bytes(std::span(data, size));
    std::map<std::string, std::string> metadata;
    std::map<std::string, std::string> unsupported;
    const auto entries =
        difflet::io::parse_safetensors_header(bytes, "input", &metadata, &unsupported);
    std::size_t covered = 0;
    for (const auto& [name, e] : entries) {
      law(e.begin >= 8 && e.begin <= e.end && e.end <= size, "inside the file");
      const difflet::HostTensor t(e.dtype, e.shape, bytes.subspan(e.begin, e.end - e.begin),
                                  nullptr);
      law(t.to_floats().size() == static_cast<std::size_t>(e.shape.elements()), "one value each");
      law(!unsupported.contains(name), "supported or not");
      covered += e.end - e.begin;
    }
    law(covered <= size, "no overlap");
  });
}
