#include "difflet/artifact/identity.h"

#include <limits>

#include <gmock/gmock.h>

#include "difflet/artifact/testing.h"
#include "difflet/base/testing.h"

namespace difflet::artifact {
namespace {

using ::testing::ElementsAre;

Identity flux() {
  Identity id;
  id.model = "FluxTransformer2DModel";
  id.source = {.id = "black-forest-labs/FLUX.1-dev",
               .revision = "0123456789abcdef0123456789abcdef01234567",
               .subfolder = "transformer",
               .variant = "",
               .content = ""};
  id.mesh = spmd::Mesh(1, 1, 2, 4);
  id.options = {{"schedule_capacity", std::int64_t{64}}, {"split", true}, {"scale", 0.5}};
  id.backend = "cpu";
  id.toolchain = {{"difflet", "0.1.0"}, {"cpu_level", "avx512bf16"}};
  add_shapes(id, {{.inputs = {{"hidden_states", {1, 1024, 64}}}, .graph = std::string(64, 'a')},
                  {.inputs = {{"hidden_states", {1, 4096, 64}}}, .graph = std::string(64, 'b')}});
  return id;
}

// Keys name folders on disk: a change here orphans every store, and needs another kIdentitySchema.
TEST(Identity, CanonicalTextAndKeyArePinned) {
  EXPECT_EQ(
      canonical_json(flux()),
      R"({"backend":"cpu","dtype":"bf16","mesh":{"cfg":1,"cp":2,"dp":1,"tp":4},)"
      R"("model":"FluxTransformer2DModel","options":{"scale":0.5,"schedule_capacity":64,"split":true},)"
      R"("schema":1,"shapes":[{"graph":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",)"
      R"("inputs":{"hidden_states":[1,4096,64]}},)"
      R"({"graph":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",)"
      R"("inputs":{"hidden_states":[1,1024,64]}}],"source":{"id":"black-forest-labs/FLUX.1-dev",)"
      R"("revision":"0123456789abcdef0123456789abcdef01234567","subfolder":"transformer","variant":""},)"
      R"("toolchain":{"cpu_level":"avx512bf16","difflet":"0.1.0"}})");
  EXPECT_EQ(key_of(flux()), "bf7bf17621eee39c");
  EXPECT_EQ(key_of(testing::identity({4, 8})), "7617322edb3739d7");
}

TEST(Identity, EveryFieldChangesTheKey) {
  const std::string key = key_of(flux());
  const auto changed = [&](const auto& change) {
    Identity id = flux();
    change(id);
    return key_of(id) != key;
  };
  EXPECT_TRUE(changed([](Identity& id) { id.schema = 2; }));
  EXPECT_TRUE(changed([](Identity& id) { id.model += "x"; }));
  EXPECT_TRUE(changed([](Identity& id) { id.source.id += "x"; }));
  EXPECT_TRUE(changed([](Identity& id) { id.source.revision[0] = 'f'; }));
  EXPECT_TRUE(changed([](Identity& id) { id.source.subfolder = "transformer_2"; }));
  EXPECT_TRUE(changed([](Identity& id) { id.source.variant = "fp16"; }));
  EXPECT_TRUE(changed([](Identity& id) { id.source.content = std::string(64, '0'); }));
  EXPECT_TRUE(changed([](Identity& id) { id.mesh = spmd::Mesh(1, 1, 4, 2); }));
  EXPECT_TRUE(changed([](Identity& id) { id.dtype = DType::F32; }));
  EXPECT_TRUE(changed([](Identity& id) { id.shapes.pop_back(); }));
  EXPECT_TRUE(changed([](Identity& id) { id.shapes[0].graph[0] = '0'; }));
  EXPECT_TRUE(changed([](Identity& id) { id.shapes[0].inputs["hidden_states"][1] = 1; }));
  EXPECT_TRUE(changed([](Identity& id) { id.options["split"] = false; }));
  EXPECT_TRUE(changed([](Identity& id) { id.options["more"] = std::string("x"); }));
  EXPECT_TRUE(changed([](Identity& id) { id.backend = "reference"; }));
  EXPECT_TRUE(changed([](Identity& id) { id.toolchain["onednn"] = "3.1"; }));
}

TEST(Identity, ShapesHaveOneOrder) {
  Identity a;
  Identity b;
  add_shapes(a, {testing::shape_entry(4), testing::shape_entry(9), testing::shape_entry(4)});
  add_shapes(b, {testing::shape_entry(9)});
  add_shapes(b, {testing::shape_entry(4)});
  EXPECT_EQ(a.shapes, b.shapes);
  EXPECT_THAT(a.shapes, ElementsAre(testing::shape_entry(9), testing::shape_entry(4)));
  ShapeEntry vast{.inputs = {{"x", {std::int64_t{1} << 40U, std::int64_t{1} << 40U}}},
                  .graph = std::string(64, '0')};
  add_shapes(a, {vast});
  EXPECT_EQ(a.shapes[0], vast);
}

TEST(Identity, JsonRoundTrip) {
  EXPECT_EQ(identity_from_json(to_json(flux()), "x"), flux());
  const Identity test = testing::identity({4, 8}, 2);
  EXPECT_EQ(identity_from_json(Json::parse(canonical_json(test)), "x"), test);
}

TEST(Identity, JsonIsReadStrictly) {
  const auto refuses = [](const auto& change, ErrorCode code, const char* part) {
    Json json = to_json(flux());
    change(json);
    EXPECT_ERROR(identity_from_json(json, "m.json"), code, part);
  };
  const auto lost = ErrorCode::DataLoss;
  refuses([](Json& j) { j["more"] = 1; }, lost, "m.json.more: unknown");
  refuses([](Json& j) { j.erase("model"); }, lost, "m.json.model: missing");
  refuses([](Json& j) { j["model"] = 1; }, lost, "m.json.model: not a string");
  refuses([](Json& j) { j["schema"] = 2; }, ErrorCode::Unsupported, "m.json.schema: 2");
  refuses([](Json& j) { j["mesh"]["tp"] = 0; }, lost, "m.json.mesh.tp: not in 1 ... 4096");
  refuses([](Json& j) { j["mesh"]["ep"] = 1; }, lost, "m.json.mesh.ep: unknown");
  refuses([](Json& j) { j["dtype"] = "f64"; }, lost, "unknown dtype");
  refuses([](Json& j) { j["source"]["revision"] = "main"; }, lost, "not 40 hex digits");
  refuses([](Json& j) { j["source"]["content"] = std::string(64, 'a'); }, lost, ".id: unknown");
  refuses([](Json& j) { std::swap(j["shapes"][0], j["shapes"][1]); }, lost, "canonical order");
  refuses([](Json& j) { j["shapes"][0]["inputs"]["hidden_states"][0] = -1; }, lost, "not in 0");
  refuses([](Json& j) { j["options"]["x"] = nullptr; }, lost, "options.x: not an integer");
  refuses([](Json& j) { j["options"]["x"] = std::numeric_limits<std::uint64_t>::max(); }, lost,
          "options.x: not in");
  refuses([](Json& j) { j["toolchain"]["x"] = 1; }, lost, "'x' is not a string");
  refuses([](Json& j) { j = Json::array(); }, lost, "m.json: not an object");
}

TEST(Identity, WhatHasNoCanonicalFormIsRefused) {
  Identity id = flux();
  id.options["scale"] = std::numeric_limits<double>::infinity();
  EXPECT_ERROR(canonical_json(id), ErrorCode::InvalidArgument, "not finite");
  id.options["scale"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_ERROR(key_of(id), ErrorCode::InvalidArgument, "not finite");
  id = flux();
  id.model = "\xff";
  EXPECT_ERROR(to_json(id), ErrorCode::InvalidArgument, "UTF-8");
  EXPECT_EQ(canonical_text(Json{{"b", 1}, {"a", {{"d", "é"}, {"c", 2.0}}}}),
            R"({"a":{"c":2.0,"d":"é"},"b":1})");
}

TEST(Identity, DifferencesNameFields) {
  Identity b = flux();
  EXPECT_TRUE(differences(flux(), b).empty());
  b.toolchain["onednn"] = "3.1";
  b.backend = "reference";
  b.shapes[0].inputs["hidden_states"][1] = 9;
  const auto all = differences(flux(), b);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].path, "backend");
  EXPECT_EQ(all[0].a, R"("cpu")");
  EXPECT_EQ(all[0].b, R"("reference")");
  EXPECT_EQ(all[1].path, "shapes[0].inputs.hidden_states");
  EXPECT_EQ(all[1].b, "[1,9,64]");
  EXPECT_EQ(all[2].path, "toolchain.onednn");
  EXPECT_EQ(all[2].a, "");
}

TEST(Identity, BaseIsWhatSizesShare) {
  EXPECT_EQ(base_of(testing::identity({4})), base_of(testing::identity({4, 8})));
  EXPECT_NE(base_of(testing::identity({4}, 1)), base_of(testing::identity({4}, 2)));
  EXPECT_TRUE(is_key(key_of(flux())));
  EXPECT_FALSE(is_key("0123456789ABCDEF"));
}

}  // namespace
}  // namespace difflet::artifact
