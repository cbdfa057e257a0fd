#include "difflet/text/tokenizer.h"

#include <system_error>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/text/class_rules.h"
#include "difflet/text/config.h"
#include "difflet/text/sentencepiece.h"
#include "difflet/text/tokenizer_json.h"

namespace difflet::text {
namespace {

bool has_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Lines of two tokens, after a line with the version.
Merges read_merges_file(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  Merges merges;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.starts_with("#version")) {
      continue;
    }
    const std::size_t space = line.find(' ');
    check(space != std::string_view::npos && line.find(' ', space + 1) == std::string_view::npos,
          ErrorCode::DataLoss, "{}:{}: a merge is two tokens with one space between", path.string(),
          number);
    merges.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return merges;
}

// "T5TokenizerFast" is another name of "T5Tokenizer".
std::string_view without_fast(std::string_view name) {
  if (name.ends_with("Fast")) {
    name.remove_suffix(4);
  }
  return name;
}

enum class Kind { Clip, T5, File };

Kind kind_of(std::string_view class_name, const Json& model, std::string_view origin) {
  const std::string_view name = without_fast(class_name);
  if (name == "CLIPTokenizer") {
    return Kind::Clip;
  }
  if (name == "T5Tokenizer") {
    return Kind::T5;
  }
  if (!name.empty() || !model.is_object()) {
    return Kind::File;
  }
  if (text_member(model, "type", "", origin) == "Unigram") {
    return Kind::T5;
  }
  return text_member(model, "end_of_word_suffix", "", origin) == "</w>" ? Kind::Clip : Kind::File;
}

std::unique_ptr<Tokenizer> open_json(const std::filesystem::path& folder, const Json& file,
                                     std::string_view class_name) {
  const std::string origin = (folder / "tokenizer.json").string();
  const FolderConfig config(folder, file);
  const Json& model = member(file, "model", origin);
  const std::string configured = config.class_name();
  Stages stages;
  switch (kind_of(class_name.empty() ? configured : class_name, model, origin)) {
    case Kind::Clip:
      stages =
          clip_stages(read_bpe_vocabulary(member(model, "vocab", origin), origin),
                      read_bpe_merges(member(model, "merges", origin), origin), config, origin);
      break;
    case Kind::T5:
      stages = t5_stages(file, config, origin);
      break;
    case Kind::File:
      stages = read_tokenizer_json(file, origin);
      stages.limits = config.limits();
      if (const std::string pad = config.token("pad", ""); !pad.empty()) {
        stages.limits.pad_id = stages.added.id_of(pad);
        if (!stages.limits.pad_id) {
          stages.limits.pad_id = stages.model->id_of(pad);
        }
      }
      break;
  }
  return std::make_unique<Pipeline>(std::move(stages));
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder,
                                          std::string_view class_name) {
  if (has_file(folder / "tokenizer.json")) {
    return open_json(folder, read_json_file(folder / "tokenizer.json"), class_name);
  }
  const Json none;
  if (has_file(folder / "vocab.json") && has_file(folder / "merges.txt")) {
    const FolderConfig config(folder, none);
    const std::string_view configured = class_name;
    const std::string named = configured.empty() ? config.class_name() : std::string(configured);
    check(
        named.empty() || without_fast(named) == "CLIPTokenizer", ErrorCode::Unsupported,
        "{}: vocab.json and merges.txt of a {}: only CLIPTokenizer is known without tokenizer.json",
        folder.string(), named);
    const std::string origin = (folder / "vocab.json").string();
    return std::make_unique<Pipeline>(
        clip_stages(read_bpe_vocabulary(read_json_file(folder / "vocab.json"), origin),
                    read_merges_file(folder / "merges.txt"), config, origin));
  }
  check(has_file(folder / "spiece.model"), ErrorCode::NotFound,
        "{}: no tokenizer here: neither tokenizer.json, nor vocab.json with merges.txt, nor "
        "spiece.model",
        folder.string());
  const std::filesystem::path path = folder / "spiece.model";
  const std::string bytes = read_text_file(path);
  return std::make_unique<Pipeline>(t5_stages(read_sentencepiece(bytes, path.string()),
                                              FolderConfig(folder, none), path.string()));
}

std::unique_ptr<Tokenizer> open_tokenizer_file(const std::filesystem::path& file) {
  const std::string origin = file.string();
  const Json json = read_json_file(file);
  Stages stages = read_tokenizer_json(json, origin);
  if (const Json& padding = optional_member(json, "padding", origin); !padding.is_null()) {
    stages.limits.pad_id = to_id(member(padding, "pad_id", origin), origin);
  }
  return std::make_unique<Pipeline>(std::move(stages));
}

}  // namespace difflet::text
