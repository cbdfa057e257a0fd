#include "difflet/pipelines/judge.h"

#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

constexpr const char* kText = R"({"format": 1, "side": 2, "columns": 2, "steps": 12,
    "names": ["black", "white", "red"],
    "questions": [{"picture": 2, "prompt": "a red thing", "seed": 9007199254740993}]})";

io::Image filled(std::int64_t width, std::int64_t height, std::vector<std::uint8_t> colour) {
  io::Image image{.width = width, .height = height, .rgb = {}};
  for (std::int64_t i = 0; i < width * height; ++i) {
    image.rgb.insert(image.rgb.end(), colour.begin(), colour.end());
  }
  return image;
}

// Black and white above, red and an empty place below.
io::Image sheet() {
  io::Image image = filled(4, 4, {0, 0, 0});
  for (std::size_t y = 0; y < 4; ++y) {
    for (std::size_t x = 0; x < 4; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const bool on = y < 2 ? x >= 2 : x < 2 && c == 0;
        image.rgb[(y * 4 + x) * 3 + c] = on ? 255 : 0;
      }
    }
  }
  return image;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kText;
  return text.replace(text.find(from), from.size(), to);
}

TEST(Judge, FindsTheNearestPictureAtItsOwnSize) {
  const Judge judge = Judge::parse(sheet(), kText, "j");
  EXPECT_EQ(judge.steps(), 12);
  ASSERT_EQ(judge.questions().size(), 1U);
  EXPECT_EQ(judge.questions()[0].prompt, "a red thing");
  EXPECT_EQ(judge.questions()[0].seed, 9007199254740993ULL);
  EXPECT_EQ(judge.name(judge.questions()[0].picture), "red");
  EXPECT_EQ(judge.nearest(filled(8, 6, {200, 30, 40})), 2U);
  EXPECT_EQ(judge.nearest(filled(2, 2, {180, 180, 190})), 1U);
  EXPECT_EQ(judge.nearest(filled(1, 1, {10, 0, 0})), 0U);
}

TEST(Judge, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& text, const std::string& part) {
    EXPECT_ERROR(Judge::parse(sheet(), text, "j"), ErrorCode::DataLoss, part);
  };
  refused("{", "j");
  refused("[]", "j");
  refused(changed("\"format\": 1", "\"format\": 2"), "format");
  refused(changed("\"side\": 2", "\"side\": 3"), "4 x 4 pixels are not 2 columns");
  refused(changed("\"side\": 2", "\"side\": 0"), "side");
  refused(changed("\"columns\": 2", "\"columns\": 1"), "are not 1 columns and 3 rows");
  refused(changed("\"red\"", "7"), "names");
  refused(changed("\"black\", \"white\", \"red\"", ""), "names");
  refused(changed("\"picture\": 2", "\"picture\": 3"), "questions[0].picture");
  refused(changed("\"seed\": 9007199254740993", "\"seed\": -1"), "questions[0].seed");
  refused(changed("\"steps\": 12,", ""), "steps");
  refused(changed("\"steps\": 12,", "\"steps\": 12, \"more\": 1,"), "more");
  refused(changed("{\"picture\": 2, \"prompt\": \"a red thing\", \"seed\": 9007199254740993}", ""),
          "questions");
}

TEST(Judge, RefusesOtherFiles) {
  const testing::TemporaryFolder folder;
  io::write_image(folder / "picture.png", sheet(), {{"prompt", "x"}});
  EXPECT_ERROR(Judge::open(folder / "picture.png"), ErrorCode::InvalidArgument, "is no judge");
  io::write_image(folder / "picture.webp", sheet(), {});
  EXPECT_ERROR(Judge::open(folder / "picture.webp"), ErrorCode::DataLoss, "picture.webp");
  EXPECT_ERROR(Judge::open(folder / "none.png"), ErrorCode::NotFound, "none.png");
}

TEST(BoxResized, RoundsHalvesUpColumnsFirst) {
  // Rows (0, 1), (0, 0): the columns' means are 0.5 -> 1 and 0, their mean 0.5 -> 1.
  io::Image image = filled(2, 2, {0, 0, 0});
  image.rgb[3] = 1;
  EXPECT_EQ(box_resized(image, 1, 1).rgb, (std::vector<std::uint8_t>{1, 0, 0}));
  // Three columns to two: pixels 0 and 1, then 2 alone or with 1, by where centres lie.
  io::Image row = filled(3, 1, {0, 0, 0});
  row.rgb[0] = 90;
  row.rgb[3] = 60;
  row.rgb[6] = 30;
  const io::Image two = box_resized(row, 2, 1);
  EXPECT_EQ(two.rgb[0], 75);
  EXPECT_EQ(two.rgb[3], 30);
  EXPECT_EQ(box_resized(row, 3, 1).rgb, row.rgb);
  EXPECT_ERROR(box_resized(row, 0, 1), ErrorCode::InvalidArgument, "cannot resize");
}

}  // namespace
}  // namespace difflet::pipelines
