#include "difflet/pipelines/model_index.h"

#include <fstream>

#include "difflet/base/testing.h"

namespace difflet::pipelines {
namespace {

constexpr const char* kIndex = R"({
  "_class_name": "FluxPipeline", "_diffusers_version": "0.42.1", "boundary_ratio": 0.9,
  "image_encoder": [null, null], "vae": ["diffusers", "AutoencoderKL"]})";

TEST(ModelIndex, ComponentsAndTheirClasses) {
  const ModelIndex index = parse_model_index(parse_json(kIndex, "i"), "m");
  EXPECT_EQ(index.pipeline, "FluxPipeline");
  EXPECT_EQ(index.class_of("vae"), "AutoencoderKL");
  EXPECT_EQ(index.components.size(), 1U);
  EXPECT_ERROR(index.class_of("image_encoder"), ErrorCode::NotFound, "there are vae");
}

TEST(ModelIndex, WhatIsNotOneIsRefused) {
  EXPECT_ERROR(parse_model_index(parse_json("[]", "i"), "m"), ErrorCode::DataLoss,
               "m/model_index.json");
  EXPECT_ERROR(parse_model_index(parse_json("{}", "i"), "m"), ErrorCode::DataLoss, "_class_name");
  EXPECT_ERROR(
      parse_model_index(parse_json(R"({"_class_name": "P", "vae": ["diffusers", 3]})", "i"), "m"),
      ErrorCode::DataLoss, "vae");
}

TEST(ModelIndex, FindsAComponentOrTheFolderItself) {
  const testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "vae");
  EXPECT_EQ(find_component(folder.path(), "").folder, folder.path());
  EXPECT_EQ(find_component(folder.path(), "vae").class_name, "");
  std::ofstream(folder / "model_index.json") << kIndex;
  EXPECT_EQ(find_component(folder.path(), "vae").class_name, "AutoencoderKL");
  EXPECT_ERROR(find_component(folder.path(), "unet"), ErrorCode::NotFound, "there are vae");
  EXPECT_ERROR(find_component(folder.path(), ".."), ErrorCode::InvalidArgument, "'..'");
  EXPECT_ERROR(find_component(folder / "none", ""), ErrorCode::NotFound, "no such folder");
}

}  // namespace
}  // namespace difflet::pipelines
