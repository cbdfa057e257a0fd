#include "difflet/base/options.h"

#include <set>

#include "difflet/base/testing.h"

namespace difflet {
namespace {

TEST(Options, SeedsAreThoseOfTorch) {
  EXPECT_EQ(parse_seed("0"), 0U);
  EXPECT_EQ(parse_seed("18446744073709551615"), ~std::uint64_t{0});
  EXPECT_EQ(parse_seed("-1"), ~std::uint64_t{0});
  EXPECT_EQ(parse_seed("-9223372036854775808"), std::uint64_t{1} << 63U);
  for (const char* wrong :
       {"18446744073709551616", "-9223372036854775809", "", "-", "1.5", " 1", "0x1"}) {
    EXPECT_EQ(parse_seed(wrong), std::nullopt) << wrong;
  }
}

TEST(Options, NearestName) {
  const std::vector<std::string_view> names{"steps", "seed", "guidance", "max-sequence-length"};
  EXPECT_EQ(nearest_name("step", names), "steps");
  EXPECT_EQ(nearest_name("sede", names), "seed");
  EXPECT_EQ(nearest_name("max-seq", names), "max-sequence-length");
  EXPECT_EQ(nearest_name("frobnicate", names), std::nullopt);
}

TEST(Options, ValuesDefaultsAndTypes) {
  OptionValues values("generate");
  EXPECT_EQ(values.integer("steps"), 28);
  EXPECT_EQ(values.optional_integer("width"), std::nullopt);
  EXPECT_EQ(values.optional_text("negative-prompt"), std::nullopt);
  values.set("steps", "4");
  values.set("negative-prompt", "");
  values.set("guidance", "2.5");
  EXPECT_EQ(values.integer("steps"), 4);
  EXPECT_EQ(values.optional_text("negative-prompt"), "");
  EXPECT_DOUBLE_EQ(values.number("guidance"), 2.5);
  EXPECT_ERROR(values.set("steps", "5"), ErrorCode::InvalidArgument, "--steps is given twice");
  EXPECT_ERROR(values.set("stepz", "5"), ErrorCode::InvalidArgument, "did you mean --steps?");
  EXPECT_ERROR(values.check_complete(), ErrorCode::InvalidArgument, "generate needs --model");
  EXPECT_ERROR(values.set("n", "0"), ErrorCode::InvalidArgument, "1 ... 1000000");
  EXPECT_ERROR(values.set("true-cfg-scale", "inf"), ErrorCode::InvalidArgument, "0 ... 1000");
}

// What parsing, help and the reference page rely on.
TEST(Options, TheTableIsWellFormed) {
  for (const OptionDecl& option : options()) {
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.commands.empty()) << option.name;
    if (!option.fallback.empty()) {
      for (const CommandDecl& command : commands()) {
        if (find_option(command.name, option.name) != nullptr) {
          OptionValues values(command.name);
          values.set(option.name, std::string(option.fallback));  // allowed
        }
      }
    }
  }
  for (const CommandDecl& command : commands()) {
    EXPECT_FALSE(options_of(command.name).empty()) << command.name;
    std::set<std::string_view> names;
    for (const OptionDecl* option : options_of(command.name)) {
      EXPECT_TRUE(names.insert(option->name).second)
          << option->name << " is declared twice for " << command.name;
    }
  }
}

}  // namespace
}  // namespace difflet
