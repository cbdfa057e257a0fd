#include "difflet/cli/calibration_source.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/cli/targets.h"
#include "difflet/pipelines/calibration.h"
#include "difflet/text/unicode.h"

namespace difflet::cli {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::size_t kLargestPrompts = std::size_t{1} << 20U;  // bytes of a file

void check_line(const std::filesystem::path& file, std::size_t number, std::string_view line) {
  const bool text =
      text::find_invalid_utf8(line) == std::string_view::npos &&
      std::ranges::none_of(line, [](char c) { return c >= 0 && c < ' ' && c != '\t'; });
  check(text, ErrorCode::InvalidArgument,
        "--calibration: '{}' is not text in UTF-8, one prompt a line (line {})", file.string(),
        number);
}

std::vector<std::string> own_prompts() {
  const auto prompts = pipelines::calibration_prompts();
  return {prompts.begin(), prompts.end()};
}

}  // namespace

std::vector<std::string> read_prompts(const std::filesystem::path& file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  const std::string content = read_text_file(file, kLargestPrompts);
  std::string_view rest = content;
  if (rest.starts_with(kByteOrderMark)) {
    rest.remove_prefix(kByteOrderMark.size());
  }
  std::vector<std::string> prompts;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    check_line(file, number, line);
    if (line.find_first_not_of(" \t") != std::string_view::npos) {
      prompts.emplace_back(line);
    }
  }
  check(!prompts.empty(), ErrorCode::InvalidArgument, "--calibration: '{}' holds no prompt",
        file.string());
  return prompts;
}

bool holds_statistics(const std::filesystem::path& file) {
  const auto mapped = MappedFile::open(file);
  const std::span<const std::byte> bytes = mapped->bytes();
  // The header's length, of which no real one takes all eight bytes, and the header.
  constexpr std::size_t kLength = 8;
  std::string extension = file.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return extension == ".safetensors" ||
         (bytes.size() > kLength && bytes[kLength - 1] == std::byte{0} &&
          bytes[kLength] == std::byte{'{'});
}

CalibrationSource calibration_source(const OptionValues& options, const CalibrationUse& use) {
  CalibrationSource source;
  if (options.given("inputs")) {
    source.inputs = read_inputs(options.text("inputs"));
  }
  const std::optional<std::string> given = options.optional_text("calibration");
  if (given == kNone) {
    check(!source.inputs, ErrorCode::InvalidArgument,
          "--calibration none and --inputs exclude each other: inputs are there to calibrate on");
  } else if (given && holds_statistics(*given)) {
    source.statistics = compile::read_statistics(*given);
  } else if (given) {
    check(use.pipeline, ErrorCode::InvalidArgument,
          "--calibration: prompts take a whole pipeline; '{}' is one component, which --inputs or "
          "statistics of --save-calibration calibrate",
          options.text("model"));
    check(!source.inputs, ErrorCode::InvalidArgument,
          "--calibration with prompts and --inputs exclude each other");
    source.prompts = read_prompts(*given);
  } else if (use.smooths && !source.inputs) {
    check(use.pipeline, ErrorCode::InvalidArgument,
          "w8a8 of one component: give --inputs to calibrate on, --calibration with statistics of "
          "--save-calibration, or --calibration none");
    source.prompts = own_prompts();
  }
  return source;
}

}  // namespace difflet::cli
