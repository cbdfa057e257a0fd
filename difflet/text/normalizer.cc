#include "difflet/text/normalizer.h"

#include "difflet/base/error.h"
#include "difflet/text/unicode.h"

namespace difflet::text {

void check_growth(const std::string& text) {
  constexpr std::size_t kLimit = std::size_t{1} << 30U;
  check(text.size() <= kLimit, ErrorCode::ResourceExhausted,
        "normalizing the text makes it longer than {} bytes", kLimit);
}

std::string CharsmapNormalizer::apply(std::string_view text) const {
  std::string out = map_.apply(text);
  check_growth(out);
  return out;
}

std::string NfcNormalizer::apply(std::string_view text) const { return to_nfc(text); }

std::string LowercaseNormalizer::apply(std::string_view text) const { return to_lower(text); }

std::string ReplaceNormalizer::apply(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  for (const Match& match : find_all(pattern_, text)) {
    out += text.substr(done, match.begin - done);
    out += content_;
    check_growth(out);
    done = match.end;
  }
  out += text.substr(done);
  return out;
}

std::string StripNormalizer::apply(std::string_view text) const {
  std::size_t begin = 0;
  std::size_t end = text.size();
  while (sides_.left && begin < end) {
    std::size_t next = begin;
    if (!is_white_space(next_code_point(text, &next))) {
      break;
    }
    begin = next;
  }
  while (sides_.right && end > begin) {
    const std::size_t previous = previous_offset(text, end);
    std::size_t at = previous;
    if (!is_white_space(next_code_point(text, &at))) {
      break;
    }
    end = previous;
  }
  return std::string(text.substr(begin, end - begin));
}

std::string NormalizerSequence::apply(std::string_view text) const {
  std::string out(text);
  for (const NormalizerPtr& part : parts_) {
    out = part->apply(out);
  }
  return out;
}

}  // namespace difflet::text
