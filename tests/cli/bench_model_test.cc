// difflet bench model. What it writes takes gigabytes: the parts are tested beside their source.
#include <fstream>

#include "tests/cli/process.h"

namespace difflet::testing {
namespace {

TEST(BenchModel, RefusesBeforeItWrites) {
  const TemporaryFolder folder;
  expect_refused({"bench", "model"}, 2, "--output");
  const std::string target = (folder / "model").string();
  expect_refused({"bench", "model", "--output", target, "--t5-layers", "0"}, 2, "t5-layers");
  std::filesystem::create_directory(target);
  std::ofstream(target + "/notes.txt") << "mine";
  expect_refused({"bench", "model", "--output", target}, 2, "not a synthetic model");
  EXPECT_TRUE(std::filesystem::exists(target + "/notes.txt"));
}

}  // namespace
}  // namespace difflet::testing
