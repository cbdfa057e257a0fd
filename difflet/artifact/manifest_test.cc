#include "difflet/artifact/manifest.h"

#include <gtest/gtest.h>

#include "difflet/artifact/testing.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

Manifest sample() {
  Manifest m;
  m.identity = testing::identity({4, 8}, 2);
  m.key = key_of(m.identity);
  m.weights = {std::string(16, '1'), "g000003"};
  m.schedule_capacity = 64;
  m.metadata = {{"created", "2026-01-31T12:00:00Z"}};
  for (std::size_t shape = 0; shape < 2; ++shape) {
    for (const Stage stage : {Stage::Request, Stage::Schedule, Stage::Step}) {
      const runtime::CompiledProgram p = testing::program(m.identity, shape, stage);
      m.programs.push_back({.shape = shape,
                            .stage = stage,
                            .file = {program_name(shape, stage), 5, std::string(64, 'f')},
                            .name = p.name,
                            .mesh = p.mesh,
                            .inputs = p.inputs,
                            .outputs = p.outputs,
                            .pieces = p.pieces});
    }
  }
  return m;
}

WeightsManifest sample_weights() {
  WeightsManifest m;
  m.base = base_of(testing::identity({4}, 2));
  m.pieces = {{"a", 64}, {"b", 0}};
  m.key = weights_key(m.base, m.pieces);
  m.files = {{shard_name(0), 4096, std::string(64, '0')},
             {shard_name(1), 4096, std::string(64, '1')}};
  return m;
}

TEST(Manifest, RoundTrip) {
  EXPECT_EQ(parse_manifest(to_text(sample()), "m"), sample());
  EXPECT_EQ(parse_weights_manifest(to_text(sample_weights()), "w"), sample_weights());
}

TEST(Manifest, IsReadStrictly) {
  const auto refuses = [](const auto& change, ErrorCode code, const char* part) {
    Json json = Json::parse(to_text(sample()));
    change(json);
    EXPECT_ERROR(parse_manifest(json.dump(), "m"), code, part);
  };
  const auto lost = ErrorCode::DataLoss;
  refuses([](Json& j) { j["schema"] = 2; }, ErrorCode::Unsupported, "m.schema: 2, this version");
  refuses([](Json& j) { j.erase("schema"); }, lost, "m.schema: missing");
  refuses([](Json& j) { j["more"] = 1; }, lost, "m.more: unknown");
  refuses([](Json& j) { j["key"] = std::string(16, '0'); }, lost, "not the key of the identity");
  refuses([](Json& j) { j["identity"]["backend"] = "x"; }, lost, "not the key of the identity");
  refuses([](Json& j) { j["weights"]["generation"] = "../x"; }, lost, "not a generation");
  refuses([](Json& j) { j["weights"]["key"] = "../x"; }, lost, "not 16 hex digits");
  refuses([](Json& j) { j["programs"][0]["file"]["name"] = "../../x"; }, lost, "name: not '0-req");
  refuses([](Json& j) { j["programs"][0]["file"]["bytes"] = -1; }, lost, "bytes: not in");
  refuses([](Json& j) { j["programs"][0]["shape"] = 2; }, lost, "shape: not in 0 ... 1");
  refuses([](Json& j) { j["programs"][0]["stage"] = "decode"; }, lost, "stage: unknown");
  refuses([](Json& j) { j["programs"][1] = j["programs"][0]; }, lost, "one of them twice");
  refuses([](Json& j) { j["programs"][0]["mesh"]["tp"] = 4; }, lost, "mesh is not that");
  refuses([](Json& j) { j["programs"][0]["pieces"]["x"] = 63; }, lost, "a multiple of 64");
  refuses([](Json& j) { j["programs"][0]["inputs"][0]["dtype"] = "x"; }, lost, "unknown dtype");
  refuses([](Json& j) { j["programs"][0]["inputs"][0]["binding"] = "x"; }, lost,
          "binding: unknown");
  refuses([](Json& j) { j["programs"][0]["inputs"][0]["shape"] = {1LL << 62U, 1LL << 62U}; }, lost,
          ".shape: ");
  EXPECT_ERROR(parse_manifest("{", "m"), lost, "m:1:");
  EXPECT_ERROR(parse_manifest("[]", "m"), lost, "m.schema: missing");
}

TEST(Manifest, WeightsAreReadStrictly) {
  const auto refuses = [](const auto& change, const char* part) {
    Json json = Json::parse(to_text(sample_weights()));
    change(json);
    EXPECT_ERROR(parse_weights_manifest(json.dump(), "w"), ErrorCode::DataLoss, part);
  };
  refuses([](Json& j) { j["files"].erase(1); }, "1 files for 2 ranks");
  refuses([](Json& j) { j["files"][0]["name"] = "tp1_sharded_checkpoint.safetensors"; },
          "not 'tp0");
  refuses([](Json& j) { j["pieces"] = {{"b", 0}, {"a", 64}}; }, "not sorted");
  refuses([](Json& j) { j["pieces"]["a"] = 128; }, "not the key of base and pieces");
  refuses([](Json& j) { j["base"]["shapes"] = to_json(testing::identity())["shapes"]; },
          "has shapes");
}

TEST(Manifest, WeightsKeyDependsOnBaseAndPiecesAlone) {
  const Identity a = testing::identity({4});
  const std::vector<runtime::WeightPiece> pieces = {{"a", 64}, {"b", 128}};
  const std::string key = weights_key(a, pieces);
  EXPECT_EQ(key, weights_key(testing::identity({8, 4}), {{"b", 128}, {"a", 64}}));
  EXPECT_NE(key, weights_key(testing::identity({4}, 2), pieces));
  EXPECT_NE(key, weights_key(a, {{"a", 64}}));
  EXPECT_NE(key, weights_key(a, {{"a", 64}, {"b", 192}}));
}

TEST(Manifest, UnionKeepsTheOrderOfPacking) {
  const Identity id = testing::identity();
  const auto request = testing::program(id, 0, Stage::Request);
  const auto step = testing::program(id, 0, Stage::Step);
  EXPECT_EQ(union_of_pieces({&request, &step}), step.pieces);
}

}  // namespace
}  // namespace difflet::artifact
