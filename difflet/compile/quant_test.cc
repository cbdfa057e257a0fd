#include "difflet/compile/quant.h"

#include <gmock/gmock.h>

#include "difflet/base/testing.h"
#include "difflet/io/safetensors.h"

namespace difflet::compile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using enum WeightQuant;

class Model : public models::Component {
 public:
  graph::Graph trace(const models::ShapeMap& /*inputs*/, DType /*dtype*/,
                     const spmd::Mesh& /*mesh*/) const override {
    return graph::Graph("model", {});
  }
  bool ignores(std::string_view tensor) const override { return tensor.starts_with("decoder."); }
  std::vector<models::QuantRule> quant_rules() const override {
    return {{"block.*.q.weight", "attention"}, {"block.*.w*.weight", "mlp"}};
  }
};

// "embed" only where it is named.
class Reluctant : public Model {
 public:
  std::vector<models::QuantRule> quant_rules() const override {
    return {{"block.*.q.weight", "attention"}, {"embed.weight", "embedding", true}};
  }
};

class NoLayers : public Model {
 public:
  std::vector<models::QuantRule> quant_rules() const override { return {}; }
};

class Quant : public ::testing::Test {
 protected:
  Quant() {
    std::map<std::string, HostTensor> tensors;
    for (const char* name : {"block.0.q.weight", "block.1.q.weight", "block.0.w1.weight",
                             "block.1.w1.weight", "embed.weight", "decoder.block.0.q.weight"}) {
      tensors.emplace(name, HostTensor(DType::BF16, {2, 3}));
    }
    tensors.emplace("block.0.q.bias", HostTensor(DType::BF16, {2}));
    tensors.emplace("block.1.wnorm.weight", HostTensor(DType::BF16, {2}));
    io::write_safetensors(folder_ / "model.safetensors", tensors);
    checkpoint_ = io::Checkpoint::open(folder_.path());
    floats_ = float_layers(model_, checkpoint_);
  }
  QuantRequest request(const std::string& mode, const std::string& groups = "") const {
    return parse_quant_request(mode, groups.empty() ? std::nullopt : std::optional(groups));
  }
  ComponentQuant quantised(const std::string& mode, const std::string& groups = "") const {
    return requested_layers(floats_, request(mode, groups), "folder");
  }
  QuantSubject subject() const { return {"Model", &model_, &checkpoint_, &floats_}; }
  void check_request(const std::string& mode, const std::string& groups) const {
    check_quant_request(std::array{subject()}, request(mode, groups));
  }
  std::optional<ComponentQuant> read(const std::string& text) const {
    return read_quant_config(parse_json(text, "test"), "config.json", model_);
  }
  void refused(const std::string& text, ErrorCode code, const std::string& part) const {
    EXPECT_ERROR(read("{\"quantization_config\": " + text + "}"), code, part);
  }

  testing::TemporaryFolder folder_;
  io::Checkpoint checkpoint_;
  Model model_;
  ComponentQuant floats_;
};

TEST_F(Quant, RulesNameTheLayersThatCanBe) {
  std::map<std::string, std::string> groups;
  for (const auto& [name, layer] : floats_.layers) {
    EXPECT_EQ(layer.mode, None);
    groups.emplace(name, layer.group);
  }
  EXPECT_THAT(groups,
              ElementsAre(Pair("block.0.q.weight", "attention"), Pair("block.0.w1.weight", "mlp"),
                          Pair("block.1.q.weight", "attention"), Pair("block.1.w1.weight", "mlp")));
  EXPECT_THAT(floats_.plan(), IsEmpty());
  EXPECT_EQ(floats_.label(), "");
  EXPECT_THAT(float_layers(NoLayers(), checkpoint_).layers, IsEmpty());
}

TEST_F(Quant, ModesAndGroups) {
  EXPECT_EQ(quantised("w8a8").plan().size(), 4U);
  EXPECT_EQ(quantised("w8a8").label(), "w8a8");
  EXPECT_EQ(quantised("none").label(), "");
  ComponentQuant smooth = quantised("w8a8");
  for (auto& [weight, layer] : smooth.layers) {
    layer.smooth = true;
  }
  EXPECT_EQ(smooth.label(), "w8a8+smooth");
  EXPECT_TRUE(quantised("none").plan().empty());

  const ComponentQuant mixed = quantised("w8a8", "mlp=w8a16,block.1.w1.weight=none");
  EXPECT_EQ(mixed.layers.at("block.0.q.weight").mode, W8A8);
  EXPECT_EQ(mixed.layers.at("block.0.w1.weight").mode, W8A16);
  EXPECT_EQ(mixed.layers.at("block.1.w1.weight").mode, None);
  EXPECT_EQ(mixed.layers.at("block.1.w1.weight").kept, "--quant-groups");
  EXPECT_EQ(mixed.plan().size(), 3U);
  EXPECT_EQ(mixed.label(), "w8a8,mlp=mixed");
  EXPECT_EQ(quantised("none", "attention=w8a16").label(), "none,attention=w8a16");
  EXPECT_EQ(quantised("w8a8", "attention=none").label(), "w8a8,attention=none");
}

TEST_F(Quant, SomeLayersOnlyWhereTheyAreNamed) {
  const Reluctant model;
  const ComponentQuant floats = float_layers(model, checkpoint_);
  const auto ask = [&](const std::string& mode, const std::string& groups) {
    return requested_layers(floats, request(mode, groups), "folder");
  };
  for (const char* groups : {"", "*=w8a16", "embed*=w8a16"}) {
    const ComponentQuant quant = ask("w8a8", groups);
    EXPECT_EQ(quant.layers.at("embed.weight").mode, None) << groups;
    EXPECT_EQ(quant.plan().size(), 2U);
    EXPECT_EQ(quant.label().find("embedding"), std::string::npos);
    EXPECT_FALSE(quant_config(quant).at("kept").contains("embed.weight"));
  }
  for (const char* groups : {"embedding=w8a16", "embed.weight=w8a16"}) {
    const ComponentQuant quant = ask("w8a8", groups);
    EXPECT_EQ(quant.layers.at("embed.weight").mode, W8A16);
    EXPECT_EQ(quant.label(), "w8a8,embedding=w8a16");
    const Json config{{kQuantConfigField, quant_config(quant)}};
    EXPECT_EQ(read_quant_config(config, "config.json", model)->plan(), quant.plan());
  }
  EXPECT_ERROR(ask("w8a8", "embedding=w8a8"), ErrorCode::InvalidArgument,
               "embedding ('embed.weight') takes w8a16 or none");
  const QuantSubject subject{"Reluctant", &model, &checkpoint_, &floats};
  EXPECT_ERROR(check_quant_request(std::array{subject}, request("w8a8", "embed*=w8a16")),
               ErrorCode::InvalidArgument, "unless the group or a weight is named in full");
}

TEST_F(Quant, TheClosestNameCounts) {
  // A weight's own name, then the longest glob, then the group.
  const ComponentQuant q =
      quantised("w8a8", "attention=none,block.1.*=w8a16,*=w8a8,block.1.q.weight=none,a*=w8a16");
  EXPECT_EQ(q.layers.at("block.0.q.weight").mode, W8A16);  // a* is the group's name
  EXPECT_EQ(q.layers.at("block.1.q.weight").mode, None);
  EXPECT_EQ(q.layers.at("block.1.w1.weight").mode, W8A16);
  EXPECT_EQ(q.layers.at("block.0.w1.weight").mode, W8A8);
}

TEST_F(Quant, RequestsAreReadStrictly) {
  EXPECT_TRUE(parse_quant_request(std::nullopt, std::nullopt).empty());
  EXPECT_FALSE(request("none").quantises());
  EXPECT_TRUE(request("none", "mlp=w8a8").quantises());
  EXPECT_ERROR(request("int4"), ErrorCode::InvalidArgument,
               "'int4' is no mode of quantisation; these are none, w8a16, w8a8");
  EXPECT_ERROR(request("w8a8", "mlp=fp8"), ErrorCode::InvalidArgument, "'fp8'");
  EXPECT_ERROR(request("w8a8", "mlp"), ErrorCode::InvalidArgument, "'mlp' is not GROUP=MODE");
  EXPECT_ERROR(request("w8a8", "mlp=none,"), ErrorCode::InvalidArgument, "'' is not GROUP=MODE");
  EXPECT_ERROR(request("w8a8", "=none"), ErrorCode::InvalidArgument, "'=none' is not GROUP=MODE");
  EXPECT_ERROR(request("w8a8", "mlp=none,mlp=w8a8"), ErrorCode::InvalidArgument,
               "'mlp' is there twice");
}

TEST_F(Quant, GroupsThatMeanNothingAreRefused) {
  check_request("w8a8", "mlp=none,attention=w8a16,block.0.*=w8a16,m*=none");
  EXPECT_ERROR(check_request("w8a8", "moe=none"), ErrorCode::InvalidArgument,
               "'moe' is neither a group nor the name of a weight; the groups are attention, mlp");
  EXPECT_ERROR(check_request("w8a8", "embed.weight=w8a16"), ErrorCode::InvalidArgument,
               "means no layer that is quantised, but 'embed.weight' of Model");
  EXPECT_ERROR(check_request("w8a8", "*.bias=none"), ErrorCode::InvalidArgument,
               "'block.0.q.bias' of Model");
  EXPECT_ERROR(check_request("w8a8", "decoder.block.0.q.weight=none"), ErrorCode::InvalidArgument,
               "is neither a group");
}

TEST_F(Quant, AComponentWithoutLayersIsRefusedAloneAndPassedOverAmongOthers) {
  const NoLayers none;
  const ComponentQuant nothing;
  const QuantSubject vae{"Vae", &none, &checkpoint_, &nothing};
  EXPECT_ERROR(check_quant_request(std::array{vae}, request("w8a16")), ErrorCode::InvalidArgument,
               "Vae has no layers that can be quantised");
  check_quant_request(std::array{vae}, request("none"));
  check_quant_request(std::array{vae, subject()}, request("w8a16", "mlp=none"));
}

TEST_F(Quant, TheConfigOfAFolderReadsBack) {
  ComponentQuant q = quantised("w8a8", "block.0.q.weight=w8a16");
  q.layers.at("block.1.q.weight").smooth = true;
  q.layers.at("block.0.w1.weight") = {
      .group = "mlp", .mode = None, .smooth = false, .kept = "relative error 0.07 over 0.05"};
  const Json json = quant_config(q);
  EXPECT_EQ(json.dump(), R"({"quant_method":"difflet","format":1,"mode":"w8a8","layers":{)"
                         R"("block.0.q.weight":"w8a16","block.1.q.weight":"w8a8+smooth",)"
                         R"("block.1.w1.weight":"w8a8"},)"
                         R"("kept":{"block.0.w1.weight":"relative error 0.07 over 0.05"}})");
  const auto back = read_quant_config({{"quantization_config", json}}, "config.json", model_);
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->stored);
  EXPECT_EQ(back->mode, W8A8);
  EXPECT_EQ(back->layers, q.layers);
  EXPECT_EQ(back->label(), "w8a8,attention=mixed,mlp=mixed");
  EXPECT_THAT(
      back->plan(),
      UnorderedElementsAre(
          Pair("block.0.q.weight", graph::passes::LinearQuant{.mode = W8A16}),
          Pair("block.1.q.weight", graph::passes::LinearQuant{.mode = W8A8, .smooth = true}),
          Pair("block.1.w1.weight", graph::passes::LinearQuant{.mode = W8A8})));
  EXPECT_FALSE(read("{}"));
  EXPECT_FALSE(read("[1]"));
}

TEST_F(Quant, ConfigsOfAnotherFormAreRefused) {
  const std::string head = R"({"quant_method": "difflet", "format": 1, "mode": "w8a8", )";
  refused("7", ErrorCode::DataLoss, "config.json: quantization_config");
  refused(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", ErrorCode::Unsupported,
          "bitsandbytes");
  refused(R"({"quant_method": "difflet", "format": 2})", ErrorCode::Unsupported, "format: 2");
  refused(R"({"quant_method": "difflet", "format": 1, "mode": "w4"})", ErrorCode::DataLoss,
          "quantization_config.mode: 'w4' is none of none, w8a16, w8a8");
  refused(R"({"quant_method": "difflet", "format": 1, "mode": "w8a16", "kept": {},)"
          R"("layers": {"block.0.q.weight": "w8a8"}})",
          ErrorCode::DataLoss, "quantization_config.mode: 'w8a16', but no layer has it");
  refused(head + R"("layers": {}})", ErrorCode::DataLoss, "quantization_config.kept");
  refused(head + R"("layers": [], "kept": {}})", ErrorCode::DataLoss, ".layers: not an object");
  refused(head + R"("layers": {}, "kept": {}, "bits": 8})", ErrorCode::DataLoss, "bits");
  refused(head + R"("layers": {"block.0.q.weight": "none"}, "kept": {}})", ErrorCode::DataLoss,
          ".layers.block.0.q.weight: \"none\" is none of");
  refused(head + R"("layers": {"block.0.q.weight": 8}, "kept": {}})", ErrorCode::DataLoss, "8");
  refused(head + R"("layers": {"embed.weight": "w8a8"}, "kept": {}})", ErrorCode::DataLoss,
          ".layers.embed.weight: no layer that this model quantises");
  refused(head + R"("layers": {}, "kept": {"block.0.q.weight": 1}})", ErrorCode::DataLoss,
          ".kept.block.0.q.weight: 1 is no text");
  refused(head + R"("layers": {"block.0.q.weight": "w8a8"}, "kept": {"block.0.q.weight": "x"}})",
          ErrorCode::DataLoss, "named as quantised and as kept");
}

TEST_F(Quant, EveryRequestIsReadBackAsItWasWritten) {
  for (const char* mode : {"none", "w8a16", "w8a8"}) {
    for (const char* groups : {"", "mlp=none", "mlp=w8a16", "mlp=w8a8", "*=w8a8", "*=w8a16",
                               "*=w8a8,block.0.q.weight=none", "block.0.q.weight=w8a16"}) {
      const ComponentQuant written = quantised(mode, groups);
      auto read =
          read_quant_config({{kQuantConfigField, quant_config(written)}}, "config.json", model_);
      ASSERT_TRUE(read);
      add_float_layers(*read, model_, checkpoint_);
      EXPECT_EQ(read->layers, written.layers) << mode << " " << groups;
      EXPECT_EQ(read->plan(), written.plan()) << mode << " " << groups;
      // Naming what is stored changes nothing.
      EXPECT_EQ(requested_layers(*read, request(mode, groups), "folder").layers, written.layers)
          << mode << " " << groups;
      EXPECT_EQ(quant_config(*read), quant_config(written));
    }
  }
}

TEST_F(Quant, LayersThatWereNotAskedForAreNotKept) {
  EXPECT_TRUE(quant_config(quantised("none", "mlp=w8a16")).at("kept").empty());
  EXPECT_EQ(quant_config(quantised("w8a8", "mlp=none")).at("kept").size(), 2U);
}

TEST_F(Quant, AQuantisedFolderStaysAsItIs) {
  ComponentQuant stored = quantised("w8a8");
  stored.stored = true;
  const auto ask = [&](const std::string& mode, const std::string& groups) {
    return requested_layers(stored, request(mode, groups), "folder").layers;
  };
  EXPECT_EQ(requested_layers(stored, {}, "folder").layers, stored.layers);
  EXPECT_EQ(ask("w8a8", ""), stored.layers);
  EXPECT_EQ(ask("w8a8", "mlp=w8a8"), stored.layers);
  EXPECT_EQ(ask("none", "*=w8a8"), stored.layers);
  EXPECT_EQ(ask("w8a8", "other=none"), stored.layers);
  EXPECT_ERROR(ask("w8a16", ""), ErrorCode::InvalidArgument,
               "folder: the weights are stored as w8a8, --quant w8a16 takes the float checkpoint");
  EXPECT_ERROR(ask("none", ""), ErrorCode::InvalidArgument, "--quant none");
  EXPECT_ERROR(ask("w8a8", "mlp=none"), ErrorCode::InvalidArgument,
               "('block.0.w1.weight' as w8a8), so that --quant-groups 'mlp=none' cannot change");
  // One that was kept for its error was asked for, one that the request left out was not.
  QuantLayer& kept = stored.layers.at("block.0.w1.weight");
  kept = {.group = "mlp", .mode = None, .smooth = false, .kept = "relative error 0.07"};
  EXPECT_EQ(ask("w8a8", "mlp=w8a8"), stored.layers);
  kept.kept = "--quant-groups";
  EXPECT_ERROR(ask("w8a8", "mlp=w8a8"), ErrorCode::InvalidArgument, "cannot change them");
}

TEST_F(Quant, AQuantisedFolderKnowsLayersThatItDoesNotName) {
  const Reluctant model;
  ComponentQuant stored = requested_layers(float_layers(model, checkpoint_), request("w8a8"), "");
  auto read = read_quant_config({{kQuantConfigField, quant_config(stored)}}, "config.json", model);
  add_float_layers(*read, model, checkpoint_);
  const QuantRequest wanted = request("w8a8", "embedding=w8a16");
  const QuantSubject subject{"Reluctant", &model, &checkpoint_, &*read};
  check_quant_request(std::array{subject}, wanted);
  EXPECT_ERROR(requested_layers(*read, wanted, "folder"), ErrorCode::InvalidArgument,
               "stored as w8a8 ('embed.weight' as none), so that --quant-groups 'embedding=w8a16'");
  EXPECT_EQ(requested_layers(*read, request("w8a8", "embedding=none"), "folder").layers,
            read->layers);
  // A group of which this checkpoint has no layer.
  read->layers.erase("embed.weight");
  EXPECT_ERROR(check_quant_request(std::array{subject}, wanted), ErrorCode::InvalidArgument,
               "there are no layers of 'embedding' in this model");
}

}  // namespace
}  // namespace difflet::compile
