#include "difflet/base/error.h"

#include <gtest/gtest.h>

namespace difflet {
namespace {

TEST(Error, ExitStatusesAreFixed) {
  EXPECT_EQ(exit_status(ErrorCode::InvalidArgument), 2);
  EXPECT_EQ(exit_status(ErrorCode::NotFound), 3);
  EXPECT_EQ(exit_status(ErrorCode::Unsupported), 4);
  EXPECT_EQ(exit_status(ErrorCode::ResourceExhausted), 5);
  EXPECT_EQ(exit_status(ErrorCode::DataLoss), 6);
  EXPECT_EQ(exit_status(ErrorCode::Unavailable), 7);
  EXPECT_EQ(exit_status(ErrorCode::Cancelled), 130);
  EXPECT_EQ(exit_status(ErrorCode::Internal), 70);
}

TEST(Error, NamesAreFixed) {
  EXPECT_EQ(error_code_name(ErrorCode::InvalidArgument), "invalid_argument");
  EXPECT_EQ(error_code_name(ErrorCode::NotFound), "not_found");
  EXPECT_EQ(error_code_name(ErrorCode::Unsupported), "unsupported");
  EXPECT_EQ(error_code_name(ErrorCode::ResourceExhausted), "resource_exhausted");
  EXPECT_EQ(error_code_name(ErrorCode::DataLoss), "data_loss");
  EXPECT_EQ(error_code_name(ErrorCode::Unavailable), "unavailable");
  EXPECT_EQ(error_code_name(ErrorCode::Cancelled), "cancelled");
  EXPECT_EQ(error_code_name(ErrorCode::Internal), "internal");
}

TEST(Error, AnUnknownCodeIsInternal) { EXPECT_EQ(exit_status(static_cast<ErrorCode>(99)), 70); }

TEST(Error, CheckThrowsOnlyWhenFalse) {
  EXPECT_NO_THROW(check(true, ErrorCode::NotFound, "{}", 1));
  try {
    check(false, ErrorCode::NotFound, "no {} in {}", "a", "b");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::NotFound);
    EXPECT_STREQ(e.what(), "no a in b");
  }
}

TEST(Error, ContextGoesInFront) {
  Error e(ErrorCode::DataLoss, "bad offset");
  e.add_context("tensor 'x'");
  e.add_context("model.safetensors");
  EXPECT_EQ(e.message(), "model.safetensors: tensor 'x': bad offset");
}

TEST(Error, RequireIsInternal) {
  EXPECT_NO_THROW(require(true, "x"));
  try {
    require(false, "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::Internal);
  }
}

}  // namespace
}  // namespace difflet
