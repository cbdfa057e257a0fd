// Any bytes as a prompt: refused as not UTF-8, or ids inside the vocabulary.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "fuzz/fuzz.h"

#include "difflet/text/tokenizer.h"

namespace {

using difflet::text::Tokenizer;

std::vector<std::unique_ptr<Tokenizer>> open_all() {
  const std::filesystem::path folder =
      std::filesystem::path(DIFFLET_SOURCE_DIR) / "tests/golden/tokenizers";
  std::vector<std::unique_ptr<Tokenizer>> out;
  for (const char* name : {"clip_files", "t5_layout1"}) {
    out.push_back(difflet::text::open_tokenizer(folder / name));
  }
  out.push_back(difflet::text::open_tokenizer_file(folder / "t5_layout1/tokenizer.json"));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<std::unique_ptr<Tokenizer>> tokenizers = open_all();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return difflet::fuzz::refuse_or_accept([&] {
    for (const auto& tokenizer : tokenizers) {
      const difflet::text::Ids ids = tokenizer->encode(text);
      for (const std::int32_t id : ids) {
        difflet::fuzz::law(id >= 0 && id < tokenizer->vocab_size(), "0 <= id < vocab_size");
      }
      tokenizer->decode(ids);
    }
  });
}
