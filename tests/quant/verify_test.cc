// difflet verify --quant on the demo checkpoint.
#include <map>
#include <sstream>

#include "tests/cli/process.h"

#include "difflet/base/json.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

std::string demo() { return (fs::path(DIFFLET_SOURCE_DIR) / "demo").string(); }

using Arguments = std::vector<std::string>;

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Arguments verify(const Arguments& more) {
  return joined({"verify", "--model", demo(), "--max-sequence-length", "32"}, more);
}

std::vector<Json> events(const std::string& lines, const std::string& kind) {
  std::vector<Json> found;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const Json event = parse_json(line, "event");
    if (event.at("event") == kind) {
      found.push_back(event);
    }
  }
  return found;
}

TEST(VerifyQuant, TellsEachLayerAndHowCloseThePicturesAre) {
  for (const std::string mode : {"w8a16", "w8a8"}) {
    const ProcessResult result =
        run_difflet(verify({"--quant", mode, "--judge", demo() + "/judge.png", "--judge-count", "2",
                            "--steps", "4", "--json"}));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err, "");
    std::map<std::string, int> layers;
    for (const Json& layer : events(result.out, "layer")) {
      ++layers[layer.at("component").get<std::string>() + " " +
               layer.at("group").get<std::string>()];
      EXPECT_EQ(layer.at("mode"), mode);
      EXPECT_GT(layer.at("relative").get<double>(), 0) << layer;
      EXPECT_TRUE(layer.at("within_bound").get<bool>()) << layer;
    }
    EXPECT_EQ(layers, (std::map<std::string, int>{{"text_encoder_2 attention", 8},
                                                  {"text_encoder_2 feed_forward", 6},
                                                  {"transformer double.attention", 16},
                                                  {"transformer double.mlp", 8},
                                                  {"transformer single.attention", 12},
                                                  {"transformer single.mlp", 8}}));
    EXPECT_EQ(events(result.out, "picture").size(), 2U);
    const Json end = events(result.out, "result").at(0);
    EXPECT_EQ(end.at("layers"), 58);
    EXPECT_EQ(end.at("pictures"), 2);
    EXPECT_LE(end.at("hits").get<int>(), 2);
    EXPECT_GT(end.at("psnr").get<double>(), mode == "w8a8" ? 30 : 40);
  }
}

TEST(VerifyQuant, ATextForPeople) {
  const ProcessResult result =
      run_difflet(verify({"--quant", "w8a16", "--quant-groups", "single.mlp=none", "--prompt",
                          "a red apple", "--steps", "2", "--least-psnr", "10"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("transformer: error of each layer on the activations of 2 runs"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("transformer double.mlp: 8 layers, mean "), std::string::npos);
  EXPECT_EQ(result.out.find("transformer single.mlp: "), std::string::npos);
  EXPECT_NE(result.out.find("proj_mlp.weight          kept: --quant-groups"), std::string::npos);
  EXPECT_NE(result.out.find("50 int8 layers, 0 over their bound; 1 picture: mean "),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.err.find("int8: 1 of 1"), std::string::npos) << result.err;
}

TEST(VerifyQuant, OneComponentOnNoise) {
  const Arguments transformer{"--quant", "w8a8", "--component", "transformer"};
  const ProcessResult result = run_difflet(verify(joined(transformer, {"--json"})));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(events(result.out, "layer").size(), 44U);
  const std::vector<Json> outputs = events(result.out, "output");
  ASSERT_GE(outputs.size(), 7U);
  EXPECT_EQ(outputs.back().at("output"), "sample");
  EXPECT_TRUE(outputs.back().at("result").get<bool>());
  EXPECT_FALSE(outputs.front().at("result").get<bool>());
  const Json end = events(result.out, "result").at(0);
  EXPECT_GT(end.at("cosine").get<double>(), 0.998);
  EXPECT_EQ(end.at("cosine"), outputs.back().at("cosine"));
  expect_refused(verify(joined(transformer, {"--least-cosine", "1"})), 6, "1 is asked for");
}

TEST(VerifyQuant, AFolderBesideTheOneThatItWasMadeOf) {
  const TemporaryFolder folder;
  const std::string made = (folder / "int8").string();
  const ProcessResult written = run_difflet({"quantize", "--model", demo(), "--quant", "w8a8",
                                             "--calibration", "none", "--output", made, "--quiet"});
  ASSERT_EQ(written.status, 0) << written.err;
  const Arguments request{"--prompt", "a red apple", "--steps", "2", "--json"};
  const ProcessResult stored = run_difflet(verify(joined({"--quantized", made}, request)));
  EXPECT_EQ(stored.status, 0) << stored.err;
  // Without calibration the folder holds what --quant makes.
  EXPECT_EQ(stored.out, run_difflet(verify(joined({"--quant", "w8a8"}, request))).out);
  const ProcessResult component =
      run_difflet(verify({"--quantized", made, "--component", "text_encoder_2"}));
  EXPECT_EQ(component.status, 0) << component.err;
  EXPECT_NE(component.out.find("text_encoder_2: 14 int8 layers"), std::string::npos)
      << component.out;
  const std::string words = "has int8 weights already";
  expect_refused({"verify", "--model", made, "--quantized", made}, 2, words);
  expect_refused({"verify", "--model", made, "--quant", "w8a8"}, 2, words);
}

TEST(VerifyQuant, BoundsThatNobodyMeets) {
  expect_refused(verify({"--quant", "w8a8", "--prompt", "x", "--steps", "1", "--least-psnr", "200",
                         "--quiet"}),
                 6, "200 are asked for");
}

TEST(VerifyQuant, Refusals) {
  const auto refused = [](const Arguments& more, const std::string& part) {
    expect_refused(verify(more), 2, part);
  };
  refused({"--quant", "none"}, "--quant none leaves nothing to verify");
  refused({"--quant", "w4"}, "w8a16");
  refused({"--judge", demo() + "/judge.png"}, "--judge counts only with --quant");
  refused({"--least-psnr", "3"}, "--least-psnr counts only with --quant");
  refused({"--quant", "w8a8", "--judge-count", "3"}, "only with --judge");
  refused({"--quant", "w8a8", "--tolerance", "1"}, "--tolerance is for a backend");
  refused({"--quant", "w8a8", "--quantized", "x"}, "exclude each other");
  refused({"--quant", "w8a8", "--judge", "x", "--prompt", "y"}, "a judge asks its own questions");
  refused({"--quant", "w8a8", "--component", "transformer", "--prompt", "y"},
          "one component makes no picture");
  refused({"--quant", "w8a8", "--component", "vae"}, "");
  refused({"--quantized", demo()}, "no layer has int8 weights");
  refused({"--quant", "w8a8", "--judge", demo() + "/judge.png", "--judge-count", "101"},
          "the judge has 100 questions");
  const std::string picture =
      (fs::path(DIFFLET_SOURCE_DIR) / "docs/images/contact-sheet.png").string();
  refused({"--quant", "w8a8", "--judge", picture}, "is no judge");
  expect_refused(verify({"--quant", "w8a8", "--judge", demo() + "/model_index.json"}), 6,
                 "model_index.json");
  expect_refused(verify({"--quant", "w8a8", "--judge", demo() + "/none.png"}), 3, "none.png");
}

}  // namespace
}  // namespace difflet::testing
