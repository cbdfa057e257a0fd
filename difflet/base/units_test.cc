#include "difflet/base/units.h"

#include <gtest/gtest.h>

#include "difflet/base/error.h"

namespace difflet {
namespace {

TEST(Sizes, AreReadInPowersOf1024) {
  EXPECT_EQ(parse_bytes("512M", "x"), std::size_t{512} << 20U);
  EXPECT_EQ(parse_bytes("2G", "x"), std::size_t{2} << 30U);
  EXPECT_EQ(parse_bytes("3k", "x"), 3072U);
  EXPECT_EQ(parse_bytes("300", "x"), std::size_t{300} << 20U);
  EXPECT_EQ(parse_bytes("1048576G", "x"), std::size_t{1} << 50U);
}

TEST(Sizes, OtherTextIsRefused) {
  for (const char* text : {"", "0", "0M", "M", "1T", "1MB", "-1M", "+1M", " 1M", "1 M", "1.5G",
                           "1048577G", "99999999999999999999", "1e3"}) {
    try {
      (void)parse_bytes(text, "--limit");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::InvalidArgument);
      EXPECT_TRUE(std::string(e.message()).starts_with("--limit: '")) << e.message();
    }
  }
}

TEST(Sizes, AsTextHoldTheBytes) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1024}, std::size_t{1025},
                                  (std::size_t{16} << 20U) - 1, (std::size_t{16} << 20U) + 1}) {
    const std::size_t read = parse_bytes(size_text(bytes), "x");
    EXPECT_GE(read, bytes);
    EXPECT_LT(read - bytes, 1024U);
  }
  EXPECT_EQ(size_text(std::size_t{294} << 20U), "294M");
  EXPECT_EQ(size_text((std::size_t{294} << 20U) - 1), "294M");
  EXPECT_EQ(size_text((std::size_t{294} << 20U) + 1), "301057K");
}

}  // namespace
}  // namespace difflet
