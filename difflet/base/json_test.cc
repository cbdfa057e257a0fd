#include "difflet/base/json.h"

#include <ctime>
#include <fstream>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

using testing::error_of;

TEST(Json, KeepsValuesAndOrder) {
  const Json j =
      parse_json(R"({"b": [1, -2, 2.5, "é", true, null], "a": {"x": {}}, "c": []})", "t");
  EXPECT_EQ(j.dump(), R"({"b":[1,-2,2.5,"é",true,null],"a":{"x":{}},"c":[]})");
  EXPECT_TRUE(j["b"][0].is_number_unsigned());
  EXPECT_EQ(parse_json("18446744073709551615", "t").get<std::uint64_t>(), ~std::uint64_t{0});
}

TEST(Json, AcceptsAScalarDocument) { EXPECT_EQ(parse_json(" 3 ", "t"), 3); }

TEST(Json, NamesLineAndColumn) {
  const Error e = error_of([] { parse_json("{\n  \"a\": 1,\n  \"b\": x\n}", "config.json"); });
  EXPECT_EQ(e.code(), ErrorCode::DataLoss);
  EXPECT_TRUE(e.message().starts_with("config.json:3:8: ")) << e.message();
  EXPECT_EQ(e.message().find("json.exception"), std::string::npos) << e.message();
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const char* text :
       {"",         " ",           "{",         "[1,]",    "{\"a\":}", "{\"a\" 1}",  "NaN",
        "[NaN]",    "[Infinity]",  "-Infinity", "1 2",     "// c\n1",  "'a'",        "\"\x01\"",
        "\"\xff\"", R"("\ud800")", "01",        "[1e999]", R"("\x")",  "{\"a\":1}}", "nul"}) {
    EXPECT_ERROR(parse_json(text, "t"), ErrorCode::DataLoss, "t:1:");
  }
  EXPECT_ERROR(parse_json(std::string_view("1\0", 2), "t"), ErrorCode::DataLoss, "t:1:2");
}

TEST(Json, RefusesDuplicateKeysAtTheirPlace) {
  EXPECT_ERROR(parse_json("{\"a\": 1,\n \"a\": 2}", "t"), ErrorCode::DataLoss,
               "t:2:4: duplicate key 'a'");
  EXPECT_ERROR(parse_json(R"({"o": {"k": 1, "l": {"k": 1}, "\u006b": 2}})", "t"),
               ErrorCode::DataLoss, "duplicate key 'k'");
}

TEST(Json, LimitsDepth) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(200), "t"));
  EXPECT_ERROR(parse_json(nested(201), "t"), ErrorCode::DataLoss, "deeper than 200");
  EXPECT_ERROR(parse_json(std::string(1'000'000, '['), "t"), ErrorCode::DataLoss, "deeper");
  std::string objects;
  for (int i = 0; i < 201; ++i) {
    objects += "{\"a\":";
  }
  EXPECT_ERROR(parse_json(objects, "t"), ErrorCode::DataLoss, "deeper");
}

TEST(Json, CutsLongQuotations) {
  const Error e = error_of([] { parse_json("[\"" + std::string(100'000, 'x') + "\n", "t"); });
  EXPECT_LT(e.message().size(), 300U);
}

// Seconds of this thread's CPU time to parse an object of so many keys.
double seconds_to_parse(int keys) {
  std::string text = "{";
  for (int i = 0; i < keys; ++i) {
    text += fmt::format("{}\"token{}\":{}", i == 0 ? "" : ",", i, i);
  }
  text += "}";
  const auto now = [] {
    timespec t = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  const Json j = parse_json(text, "t");
  EXPECT_EQ(j.size(), static_cast<std::size_t>(keys));
  return now() - start;
}

// A vocabulary has 260 thousand keys; the library's own builder compares each with all before it.
TEST(Json, ReadsLargeObjectsInLinearTime) {
  const double small = seconds_to_parse(20'000);
  EXPECT_LT(seconds_to_parse(160'000), 30 * small);  // 8 if linear, 64 if quadratic
}

TEST(Json, FilesAreNamedInErrors) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "bad.json") << "{";
  EXPECT_ERROR(read_json_file(folder / "bad.json"), ErrorCode::DataLoss, "bad.json:1:2: ");
  EXPECT_ERROR(read_json_file(folder / "absent.json"), ErrorCode::NotFound, "absent.json");
}

}  // namespace
}  // namespace difflet
