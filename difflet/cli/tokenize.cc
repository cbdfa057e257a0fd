#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/cli/command.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/pipelines/model_index.h"
#include "difflet/text/tokenizer.h"

namespace difflet::cli {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16U;

std::string read_standard_input() {
  std::string text;
  while (true) {
    check_stop();
    const std::size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t got = ::read(STDIN_FILENO, text.data() + size, kPiece);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) {
      return text;
    }
    check(got > 0 || errno == EINTR, ErrorCode::Unavailable, "cannot read standard input: {}",
          std::strerror(errno));
  }
}

// The class that model_index.json or the tokenizer's own configuration names; may be empty.
std::string tokenizer_class(const pipelines::ComponentPlace& place) {
  if (!place.class_name.empty()) {
    return place.class_name;
  }
  std::error_code ignored;
  const std::filesystem::path file = place.folder / "tokenizer_config.json";
  if (!std::filesystem::exists(file, ignored)) {
    return "";
  }
  const Json config = read_json_file(file);
  const auto found = config.is_object() ? config.find("tokenizer_class") : config.end();
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

// As the pipeline feeds it: CLIP's length is the tokenizer's, T5's is the option.
std::int64_t padded_length(const text::Tokenizer& tokenizer, const OptionValues& options,
                           const std::string& class_name) {
  const bool is_t5 = class_name.starts_with("T5");
  if (!is_t5 && !options.given("max-sequence-length") && tokenizer.max_length() > 0) {
    return tokenizer.max_length();
  }
  return options.integer("max-sequence-length");
}

}  // namespace

void run_tokenize(const OptionValues& options) {
  const auto place = pipelines::find_component(model_folder(options), options.text("component"));
  const auto tokenizer = text::open_tokenizer(place.folder, place.class_name);
  const std::string input = read_standard_input();
  const std::int64_t length =
      options.flag("pad") ? padded_length(*tokenizer, options, tokenizer_class(place)) : 0;
  std::string out;
  std::size_t line_number = 0;
  // A last line without \n counts; nothing after the last \n does not.
  for (std::size_t begin = 0; begin < input.size();) {
    const std::size_t end = std::min(input.find('\n', begin), input.size());
    const std::string_view line = std::string_view(input).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    try {
      const text::Ids ids =
          length > 0 ? tokenizer->encode_padded(line, length).ids : tokenizer->encode(line);
      out += fmt::format("[{}]\n", fmt::join(ids, ", "));
    } catch (Error& e) {
      e.add_context(fmt::format("line {}", line_number));
      print(out);
      throw;
    }
    if (out.size() > kPiece) {
      print(out);
      out.clear();
      check_stop();
    }
  }
  print(out);
}

}  // namespace difflet::cli
