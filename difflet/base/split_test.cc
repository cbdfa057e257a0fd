#include "difflet/base/split.h"

#include <gmock/gmock.h>

namespace difflet {
namespace {

using ::testing::ElementsAre;

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,b", ','), ElementsAre("a", "b"));
  EXPECT_THAT(split(",a,,", ','), ElementsAre("", "a", "", ""));
  EXPECT_THAT(split("a,b", '+'), ElementsAre("a,b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

}  // namespace
}  // namespace difflet
