#include "difflet/bench/scenario.h"

#include "difflet/base/testing.h"
#include "difflet/bench/engine_spec.h"
#include "difflet/bench/resolved.h"

namespace difflet::bench {
namespace {

Json fields() {
  return {{"name", "x-1"},
          {"model", {{"folder", "demo"}}},
          {"width", 512},
          {"height", 256},
          {"max_sequence_length", 77},
          {"n", 1},
          {"steps", 4},
          {"dtype", "bf16"},
          {"prompt", "p"},
          {"guidance", 3.5},
          {"seed", 0},
          {"threads", 2},
          {"plan", {{"tp", 1}}}};
}
Scenario scenario_of(const Json& json) { return parse_scenario(json.dump(), "x.json"); }

TEST(Scenario, ReadsBackAsItself) {
  Json json = fields();
  json["model"] = {{"synthetic",
                    {{"pipeline", "flux"},
                     {"double", 2},
                     {"single", 4},
                     {"t5_layers", 4},
                     {"clip_layers", 12}}}};
  json["component"] = "transformer";
  const Scenario scenario = scenario_of(json);
  EXPECT_EQ(image_tokens(scenario), 512);
  EXPECT_EQ(describe(scenario), "transformer, 512x256, bf16, 2 threads");
  EXPECT_EQ(scenario_digest(scenario_of(scenario_json(scenario))), scenario_digest(scenario));
  json["quant"] = "w8a8";
  const Scenario int8 = scenario_of(json);
  EXPECT_EQ(describe(int8), "transformer, 512x256, bf16 w8a8, 2 threads");
  EXPECT_EQ(scenario_of(scenario_json(int8)).quant, graph::WeightQuant::W8A8);
  EXPECT_NE(scenario_digest(int8), scenario_digest(scenario));
  json.erase("quant");
  json["about"] = "words do not count";
  EXPECT_EQ(scenario_digest(scenario_of(json)), scenario_digest(scenario));
  json["steps"] = 5;
  EXPECT_NE(scenario_digest(scenario_of(json)), scenario_digest(scenario));
}

TEST(Scenario, SweepsAndThreadsMultiply) {
  Json json = fields();
  json["sweep"] = {{"size", {"64x64", "128x64"}}};
  const auto points = expand(scenario_of(json), {1, 2});
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points[3].width, 128);
  EXPECT_EQ(points[3].threads, 2);
  json["sweep"] = {{"threads", {1, 4}}};
  const auto threads = expand(scenario_of(json), {1, 2});
  ASSERT_EQ(threads.size(), 2U);
  EXPECT_EQ(threads[1].threads, 4);
}

TEST(Scenario, FieldsAreChecked) {
  const auto refused = [](const std::function<void(Json&)>& change, const char* part) {
    Json json = fields();
    change(json);
    EXPECT_ERROR(scenario_of(json), ErrorCode::DataLoss, part);
  };
  refused([](Json& j) { j["name"] = "../x"; }, "name");
  refused([](Json& j) { j["model"] = {{"repository", "a/b"}, {"revision", "main"}}; },
          "not 40 hex digits");
  refused([](Json& j) { j["component"] = "unet"; }, "not one of");
  refused([](Json& j) { j["dtype"] = "i64"; }, "not bf16 or f32");
  refused([](Json& j) { j["guidance"] = -1; }, "guidance");
  refused([](Json& j) { j["quant"] = "int4"; }, "not one of none, w8a16, w8a8");
  refused([](Json& j) { j["plan"] = {{"tp", 2}}; }, "only 1");
  refused([](Json& j) { j["extra"] = 1; }, "extra: unknown");
  refused([](Json& j) { j["sweep"] = {{"size", {"64x"}}}; }, "is not a value");
  refused([](Json& j) { j["sweep"] = {{"n", Json::array()}}; }, "not a list of 1");
}

TEST(Engines, NamesCarryOptions) {
  const auto engines = parse_engines("difflet,diffusers:compile+huge+f32,sdcpp:best,x:a=b");
  ASSERT_EQ(engines.size(), 4U);
  EXPECT_EQ(engines[1].program, "diffusers");
  EXPECT_EQ(engines[1].options,
            (Json{{"compile", "blocks"}, {"malloc", "huge"}, {"dtype", "f32"}}));
  EXPECT_EQ(engines[3].options, (Json{{"a", "b"}}));
  const Resolved resolved = resolve(scenario_of(fields()), engines[1]);
  EXPECT_EQ(resolved.dtype, DType::F32);
  EXPECT_FALSE(resolved.options.contains("dtype"));
  const Resolved int8 = resolve(scenario_of(fields()), parse_engine("difflet:w8a16"));
  EXPECT_EQ(int8.quant, graph::WeightQuant::W8A16);
  EXPECT_EQ(parse_resolved(resolved_json(int8, "x")).quant, graph::WeightQuant::W8A16);
  EXPECT_TRUE(int8.options.empty());
  EXPECT_ERROR(resolve(scenario_of(fields()), parse_engine("x:quant=w4")),
               ErrorCode::InvalidArgument, "quant is not one of none, w8a16, w8a8");
  EXPECT_ERROR(parse_engines("a,,b"), ErrorCode::InvalidArgument, "is not NAME");
  EXPECT_ERROR(parse_engines("a:+b"), ErrorCode::InvalidArgument, "is not NAME");
  EXPECT_ERROR(parse_engines("../a"), ErrorCode::InvalidArgument, "is not NAME");
  for (const char* both : {"difflet:w8a8+w8a16", "difflet:w8a8+quant=none", "x:a=b+a"}) {
    EXPECT_ERROR(parse_engines(both), ErrorCode::InvalidArgument, "contradicts the option before");
  }
  EXPECT_EQ(parse_engine("difflet:w8a8+quant=w8a8").options, (Json{{"quant", "w8a8"}}));
}

}  // namespace
}  // namespace difflet::bench
