#include "difflet/pipelines/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/error.h"
#include "difflet/base/json.h"

namespace difflet::pipelines {
namespace {

using artifact::JsonFields;

constexpr const char* kText = "judge";
constexpr std::int64_t kMaxSide = 256;
constexpr std::size_t kMaxPictures = 1 << 16;

// The pixels [begin, end) of an axis that pixel `index` of the resized one covers.
struct Window {
  std::int64_t begin = 0, end = 0;
};

Window window(std::int64_t index, std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  // A picture that grows takes the one pixel that it lies in.
  const double half = std::max(scale, 1.0) / 2;
  const double centre = (static_cast<double>(index) + 0.5) * scale;
  Window w{.begin = std::lround(centre - half), .end = std::lround(centre + half)};
  w.begin = std::clamp<std::int64_t>(w.begin, 0, from - 1);
  w.end = std::clamp<std::int64_t>(w.end, w.begin + 1, from);
  return w;
}

// Pixel `item` of row or column `line`.
std::size_t offset(std::int64_t line, std::int64_t item, std::int64_t line_stride,
                   std::int64_t item_stride) {
  return static_cast<std::size_t>((line * line_stride + item * item_stride) * 3);
}

std::vector<std::uint8_t> thumbnail_of(const io::Image& sheet, std::int64_t x, std::int64_t y,
                                       std::int64_t side) {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(static_cast<std::size_t>(side * side * 3));
  for (std::int64_t row = 0; row < side; ++row) {
    const auto begin =
        sheet.rgb.begin() + static_cast<std::ptrdiff_t>(((y + row) * sheet.width + x) * 3);
    pixels.insert(pixels.end(), begin, begin + static_cast<std::ptrdiff_t>(side * 3));
  }
  return pixels;
}

std::vector<std::string> read_names(JsonFields& fields) {
  std::vector<std::string> names;
  for (const Json& name : fields.list("names", kMaxPictures)) {
    fields.expect(name.is_string(), "names", "not a list of texts");
    names.push_back(name.get<std::string>());
  }
  fields.expect(!names.empty(), "names", "empty");
  return names;
}

std::vector<Judge::Question> read_questions(JsonFields& fields, std::size_t pictures) {
  std::vector<Judge::Question> questions;
  for (const Json& json : fields.list("questions", kMaxPictures)) {
    JsonFields one(json, fmt::format("{}[{}]", fields.path("questions"), questions.size()));
    Judge::Question question;
    question.picture = static_cast<std::size_t>(
        one.integer("picture", 0, static_cast<std::int64_t>(pictures) - 1));
    question.prompt = one.text("prompt");
    question.seed = static_cast<std::uint64_t>(
        one.integer("seed", 0, std::numeric_limits<std::int64_t>::max()));
    one.done();
    questions.push_back(std::move(question));
  }
  fields.expect(!questions.empty(), "questions", "empty");
  return questions;
}

}  // namespace

io::Image box_resized(const io::Image& image, std::int64_t width, std::int64_t height) {
  check(width > 0 && height > 0 && image.width > 0 && image.height > 0, ErrorCode::InvalidArgument,
        "cannot resize {} x {} pixels to {} x {}", image.width, image.height, width, height);
  // Along one axis: `lines` rows or columns of `from` pixels become as many of `to`.
  const auto pass = [](const std::vector<std::uint8_t>& in, std::int64_t lines, std::int64_t from,
                       std::int64_t to, bool rows) {
    std::vector<std::uint8_t> out(static_cast<std::size_t>(lines * to * 3));
    for (std::int64_t i = 0; i < to; ++i) {
      const Window w = window(i, from, to);
      const std::int64_t count = w.end - w.begin;
      for (std::int64_t line = 0; line < lines; ++line) {
        for (std::size_t c = 0; c < 3; ++c) {
          std::int64_t sum = 0;
          for (std::int64_t k = w.begin; k < w.end; ++k) {
            sum += in[(rows ? offset(line, k, from, 1) : offset(line, k, 1, lines)) + c];
          }
          out[(rows ? offset(line, i, to, 1) : offset(line, i, 1, lines)) + c] =
              static_cast<std::uint8_t>((2 * sum + count) / (2 * count));
        }
      }
    }
    return out;
  };
  const std::vector<std::uint8_t> narrow = pass(image.rgb, image.height, image.width, width, true);
  return {
      .width = width, .height = height, .rgb = pass(narrow, width, image.height, height, false)};
}

Judge Judge::open(const std::filesystem::path& file) {
  std::map<std::string, std::string> text;
  const io::Image sheet = io::read_png(file, &text);
  const auto found = text.find(kText);
  check(found != text.end(), ErrorCode::InvalidArgument,
        "'{}' is no judge: a picture without the text '{}' that tools/demo/make_judge writes",
        file.string(), kText);
  return parse(sheet, found->second, file.string());
}

Judge Judge::parse(const io::Image& sheet, std::string_view text, const std::string& origin) {
  const Json json = parse_json(text, origin);
  JsonFields fields(json, origin);
  (void)fields.integer("format", 1, 1);
  Judge judge;
  judge.side_ = fields.integer("side", 1, kMaxSide);
  const std::int64_t columns =
      fields.integer("columns", 1, static_cast<std::int64_t>(kMaxPictures));
  judge.steps_ = fields.integer("steps", 1, 100000);
  judge.names_ = read_names(fields);
  judge.questions_ = read_questions(fields, judge.names_.size());
  fields.done();
  const auto count = static_cast<std::int64_t>(judge.names_.size());
  const std::int64_t rows = (count + columns - 1) / columns;
  check(sheet.width == columns * judge.side_ && sheet.height == rows * judge.side_,
        ErrorCode::DataLoss, "{}: {} x {} pixels are not {} columns and {} rows of {} x {} pixels",
        origin, sheet.width, sheet.height, columns, rows, judge.side_, judge.side_);
  for (std::int64_t i = 0; i < count; ++i) {
    judge.thumbnails_.push_back(
        thumbnail_of(sheet, i % columns * judge.side_, i / columns * judge.side_, judge.side_));
  }
  return judge;
}

std::size_t Judge::nearest(const io::Image& picture) const {
  const std::vector<std::uint8_t> small = box_resized(picture, side_, side_).rgb;
  std::size_t best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < thumbnails_.size(); ++i) {
    std::int64_t distance = 0;
    for (std::size_t k = 0; k < small.size(); ++k) {
      const std::int64_t d = small[k] - thumbnails_[i][k];
      distance += d * d;
    }
    if (distance < least) {
      least = distance;
      best = i;
    }
  }
  return best;
}

}  // namespace difflet::pipelines
