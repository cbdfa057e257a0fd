// --quant and --quant-groups, and folders that hold int8 weights.
#include <fstream>
#include <map>

#include "tests/cli/process.h"

#include "difflet/base/file.h"
#include "difflet/base/json.h"
#include "difflet/compile/component.h"
#include "difflet/compile/int8_weight.h"
#include "difflet/io/image.h"
#include "difflet/io/safetensors.h"
#include "difflet/tensor/compare.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

constexpr const char* kWeights = "diffusion_pytorch_model.safetensors";

Arguments joined(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Puts int8 weights into a component folder; `change` may damage them.
using Tensors = std::map<std::string, HostTensor>;
void quantise_folder(const fs::path& folder, const std::string& file, const std::string& mode,
                     const std::function<void(Tensors&, Json&)>& change = nullptr) {
  Log log(LogLevel::Error);
  ThreadPool threads(1);
  Tensors tensors;
  Json config = read_json_file(folder / "config.json");
  {
    auto component = compile::ComponentFolder::open(folder, "", "", log);
    component.quantise(compile::parse_quant_request(mode, std::nullopt));
    for (const std::string& name : component.checkpoint().names()) {
      const HostTensor whole = component.checkpoint().tensor(name);
      if (!component.quant().plan().contains(name)) {
        tensors.emplace(name, whole.to(whole.dtype()));
        continue;
      }
      const compile::Int8Weight made = compile::quantise_weight(name, whole, {}, threads);
      tensors.emplace(graph::passes::int8_name(name), made.values);
      tensors.emplace(graph::passes::scale_name(name), made.scale);
    }
    config[compile::kQuantConfigField] = compile::quant_config(component.quant());
  }
  if (change) {
    change(tensors, config);
  }
  io::write_safetensors(folder / file, tensors);
  const std::string text = config.dump(2);
  write_file_atomic(folder / "config.json", std::as_bytes(std::span(text)));
}

class QuantOptions : public ::testing::TestWithParam<const char*> {
 protected:
  QuantOptions() { copy_model("schnell", model_); }

  Arguments small(const std::string& command, const Arguments& more = {}) const {
    return joined({command, "--model", model_.string(), "--max-sequence-length", "16", "--backend",
                   GetParam(), "--cache-dir", (folder_ / "store").string()},
                  more);
  }
  Arguments generate(const Arguments& more = {}) const {
    return joined(small("generate", {"--output", (folder_ / "x.png").string(), "--steps", "2",
                                     "--prompt", "a red circle", "--quiet"}),
                  more);
  }
  io::Image picture(const Arguments& more = {},
                    std::map<std::string, std::string>* text = nullptr) {
    const ProcessResult result = run_difflet(generate(more));
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? io::read_png(folder_ / "x.png", text) : io::Image{};
  }
  void quantise_model(const std::string& mode) {
    quantise_folder(model_ / "transformer", kWeights, mode);
    quantise_folder(model_ / "text_encoder_2", "model.safetensors", mode);
  }
  // Refused when the damaged transformer is opened or traced.
  void refused_folder(const std::function<void(Tensors&, Json&)>& change, int status,
                      const std::string& part) {
    fs::remove_all(model_);
    copy_model("schnell", model_);
    quantise_folder(model_ / "transformer", kWeights, "w8a8", change);
    expect_refused(generate(), status, part);
  }

  TemporaryFolder folder_;
  fs::path model_ = folder_ / "model";
};

TEST_P(QuantOptions, ChangeThePictureALittle) {
  const io::Image floats = picture();
  EXPECT_EQ(picture({"--quant", "none"}).rgb, floats.rgb);
  for (const char* mode : {"w8a16", "w8a8"}) {
    std::map<std::string, std::string> text;
    const io::Image image = picture({"--quant", mode}, &text);
    EXPECT_NE(image.rgb, floats.rgb) << mode;
    double squares = 0;
    for (std::size_t i = 0; i < image.rgb.size(); ++i) {
      const double d = static_cast<double>(image.rgb[i]) - static_cast<double>(floats.rgb[i]);
      squares += d * d;
    }
    EXPECT_LT(squares / static_cast<double>(image.rgb.size()), 40) << mode;
    EXPECT_EQ(text["quant"], fmt::format("text_encoder_2 {0}; transformer {0}", mode));
    EXPECT_EQ(picture({"--quant", mode}).rgb, image.rgb) << mode;
  }
}

TEST_P(QuantOptions, GroupsOfOneComponentLeaveTheOthers) {
  std::map<std::string, std::string> text;
  picture({"--quant", "w8a8", "--quant-groups", "attention=none,single.*=w8a16"}, &text);
  EXPECT_EQ(text["quant"],
            "text_encoder_2 w8a8,attention=none; "
            "transformer w8a8,single.attention=w8a16,single.mlp=w8a16");
  picture({"--quant", "w8a8", "--quant-groups", "modulation=w8a16"}, &text);
  EXPECT_EQ(text["quant"], "text_encoder_2 w8a8; transformer w8a8,modulation=w8a16");
}

TEST_P(QuantOptions, AnArtifactGivesWhatAFreshCompileGives) {
  for (const char* mode : {"w8a16", "w8a8"}) {
    const Arguments quant{"--quant", mode};
    const io::Image fresh = picture(joined(quant, {"--artifact", "off"}));
    const ProcessResult compiled = run_difflet(joined(small("compile"), quant));
    EXPECT_EQ(compiled.status, 0) << compiled.err;
    EXPECT_EQ(picture(joined(quant, {"--artifact", "require"})).rgb, fresh.rgb) << mode;
  }
  expect_refused(generate({"--artifact", "require"}), 3, "differs in options.quant (\"w8a");
  expect_refused(
      generate({"--artifact", "require", "--quant", "w8a8", "--quant-groups", "double.mlp=none"}),
      3, "--quant w8a8 --quant-groups double.mlp=none");
  const ProcessResult list =
      run_difflet({"cache", "ls", "--cache-dir", (folder_ / "store").string()});
  EXPECT_NE(list.out.find(fmt::format("bf16 w8a8 {}", GetParam())), std::string::npos) << list.out;
}

TEST_P(QuantOptions, AQuantisedFolderIsWhatTheOptionGives) {
  for (const char* mode : {"w8a16", "w8a8"}) {
    fs::remove_all(model_);
    copy_model("schnell", model_);
    const io::Image option = picture({"--quant", mode});
    quantise_model(mode);
    EXPECT_EQ(picture().rgb, option.rgb) << mode;
    EXPECT_EQ(picture({"--quant", mode}).rgb, option.rgb) << mode;
  }
  const ProcessResult compiled = run_difflet(small("compile"));
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  const io::Image fresh = picture({"--artifact", "off"});
  EXPECT_EQ(picture({"--artifact", "require"}).rgb, fresh.rgb);
}

TEST_P(QuantOptions, AQuantisedFolderIsNoOtherMode) {
  quantise_model("w8a8");
  expect_refused(generate({"--quant", "w8a16"}), 2, "the weights are stored as w8a8");
  expect_refused(generate({"--quant", "none"}), 2, "--quant none takes the float checkpoint");
  expect_refused(generate({"--quant-groups", "double.mlp=none"}), 2, "cannot change them");
  expect_refused(generate({"--quant-groups", "modulation=w8a16"}), 2,
                 "so that --quant-groups 'modulation=w8a16' cannot change them");
  const io::Image stored = picture();
  EXPECT_EQ(picture({"--quant", "w8a8", "--quant-groups", "double.mlp=w8a8"}).rgb, stored.rgb);
}

TEST_P(QuantOptions, AFolderOfOneQuantisedGroup) {
  const Arguments group{"--quant", "none", "--quant-groups", "single.mlp=w8a16"};
  const io::Image option = picture(group);
  const std::string made = (folder_ / "made").string();
  const ProcessResult written = run_difflet(
      joined({"quantize", "--model", model_.string(), "--output", made, "--quiet"}, group));
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.out.find("kept "), std::string::npos) << written.out;
  const Json config =
      read_json_file(fs::path(made) / "transformer/config.json").at("quantization_config");
  EXPECT_EQ(config.at("mode"), "none");
  EXPECT_TRUE(config.at("kept").empty());
  model_ = made;
  EXPECT_EQ(picture().rgb, option.rgb);
  EXPECT_EQ(picture(group).rgb, option.rgb);
}

TEST_P(QuantOptions, LittleCalibrationIsWarnedAbout) {
  const std::string prompts = (folder_ / "prompts.txt").string();
  write_file_atomic(prompts, std::as_bytes(std::span("one\ntwo\n", 8)));
  const auto warned = [&](const std::string& steps, const std::string& output) {
    const ProcessResult result = run_difflet(
        {"quantize", "--model", model_.string(), "--quant", "w8a8", "--component", "text_encoder_2",
         "--max-sequence-length", "16", "--backend", GetParam(), "--calibration", prompts,
         "--steps", steps, "--output", (folder_ / output).string()});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err.find("calibration in few steps") != std::string::npos;
  };
  EXPECT_TRUE(warned("3", "a"));
  EXPECT_FALSE(warned("4", "b"));
}

TEST_P(QuantOptions, WhatCannotBeIsRefused) {
  expect_refused(generate({"--quant", "int4"}), 2, "w8a16");
  expect_refused(generate({"--quant-groups", "double.mlp=int4"}), 2,
                 "'int4' is no mode of quantisation");
  expect_refused(generate({"--quant", "w8a8", "--quant-groups", "moe=none"}), 2,
                 "the groups are attention, feed_forward, double.attention");
  expect_refused(generate({"--quant", "w8a8", "--quant-groups", "x_embedder.weight=w8a16"}), 2,
                 "'x_embedder.weight' of FluxTransformer2DModel");
  expect_refused(generate({"--quant", "w8a8", "--quant-groups", "*.norm1.linear.weight=w8a8"}), 2,
                 "norm1.linear.weight");
  const fs::path z = folder_ / "z.safetensors";
  io::write_safetensors(z, {{"z", HostTensor(DType::F32, {1, 2, 4, 6})}});
  const Arguments eval{"eval",        "--model",  model_.string(),
                       "--component", "vae",      "--inputs",
                       z.string(),    "--output", (folder_ / "y.safetensors").string()};
  expect_refused(joined(eval, {"--quant", "w8a16"}), 2,
                 "AutoencoderKL has no layers that can be quantised");
  expect_refused(small("compile", {"--component", "vae", "--quant", "w8a16"}), 2,
                 "AutoencoderKL has no layers");
}

TEST_P(QuantOptions, DamagedFoldersAreRefused) {
  const std::string weight = "transformer_blocks.0.attn.to_q.weight";
  refused_folder([&](Tensors& t, Json&) { t.erase(weight + "_scale"); }, 6,
                 "missing '" + weight + "_scale'");
  refused_folder([&](Tensors& t, Json&) { t[weight + "_scale"] = HostTensor(DType::F32, {3}); }, 6,
                 weight + "_scale");
  refused_folder(
      [&](Tensors& t, Json&) { t[weight + "_int8"] = HostTensor(DType::BF16, {32, 32}); }, 6,
      "is bf16, not I8");
  const auto changed = [&](const std::string& part, const auto& change) {
    return [=](Tensors& t, Json&) { t[weight + part] = change(t.at(weight + part)); };
  };
  refused_folder(changed("_scale", [](const HostTensor& t) { return t.to(DType::F16); }), 6,
                 "is f16, not F32");
  refused_folder(
      changed("_scale", [](const HostTensor& t) { return t.reshaped(Shape{t.shape()[0], 1}); }), 6,
      weight + "_scale");
  const std::string damaged = weight + "_scale' is damaged: element 0 is 0";
  refused_folder(
      changed("_scale", [](const HostTensor& t) { return HostTensor(DType::F32, t.shape()); }), 6,
      damaged);
  const ProcessResult compiled = run_difflet(small("compile"));
  EXPECT_EQ(compiled.status, 6) << compiled.err;
  EXPECT_NE(compiled.err.find(damaged), std::string::npos) << compiled.err;
  refused_folder([&](Tensors& t, Json&) { t[weight] = HostTensor(DType::BF16, {32, 32}); }, 6,
                 "unexpected '" + weight + "'");
  refused_folder([&](Tensors& t, Json&) { t[weight + "_smooth"] = HostTensor(DType::F32, {32}); },
                 6, "unexpected '" + weight + "_smooth'");
  refused_folder(
      [&](Tensors&, Json& c) { c["quantization_config"]["layers"]["x_embedder.weight"] = "w8a8"; },
      6, "x_embedder.weight: no layer that this model quantises");
  refused_folder([&](Tensors&, Json& c) { c["quantization_config"]["quant_method"] = "gptq"; }, 4,
                 "gptq");
}

TEST_P(QuantOptions, NaNInAQuantisedWeightIsRefused) {
  const fs::path file = model_ / "transformer" / kWeights;
  Tensors tensors;
  {
    const auto floats = io::SafetensorsFile::open(file);
    for (const auto& [name, entry] : floats.entries()) {
      tensors.emplace(name, floats.tensor(name).to(DType::F32).to(entry.dtype));
    }
  }
  const std::string weight = "single_transformer_blocks.1.proj_mlp.weight";
  HostTensor bad(DType::F32, tensors.at(weight).shape());
  bad.mutable_as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  tensors.insert_or_assign(weight, bad);
  io::write_safetensors(file, tensors);
  for (const char* mode : {"none", "w8a16", "w8a8"}) {
    expect_refused(generate({"--quant", mode}), 6, "tensor '" + weight + "' holds NaN or");
  }
}

TEST_P(QuantOptions, InspectShowsGroupsAndSizes) {
  const Arguments inspect{"inspect", "--model",   model_.string(), "--max-sequence-length",
                          "16",      "--backend", GetParam()};
  const auto rows = [&](const Arguments& more) {
    const ProcessResult result = run_difflet(joined(joined(inspect, {"--json"}), more));
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, Json> found;
    const Json all = parse_json(result.out, "inspect");
    for (const Json& row : all.at("components")) {
      found.emplace(row.at("name").get<std::string>(), row);
    }
    return found;
  };
  const auto floats = rows({});
  EXPECT_EQ(floats.at("transformer").at("quant").at("mode"), "none");
  const auto int8 = rows({"--quant", "w8a16"});
  const Json& quant = int8.at("transformer").at("quant");
  EXPECT_EQ(quant.at("mode"), "w8a16");
  ASSERT_EQ(quant.at("groups").size(), 5U);
  std::size_t saved = 0;
  for (const Json& group : quant.at("groups")) {
    const double ratio = group.at("bytes").get<double>() / group.at("float_bytes").get<double>();
    if (group.at("group") == "modulation") {
      EXPECT_EQ(group.at("mode"), "none");
      EXPECT_EQ(ratio, 1);
    } else {
      EXPECT_LT(ratio, 0.7) << group;
    }
    saved += group.at("float_bytes").get<std::size_t>() - group.at("bytes").get<std::size_t>();
  }
  const auto weights = [](const Json& row) {
    return row.at("planned_bytes").at("weights").get<std::size_t>();
  };
  EXPECT_EQ(weights(floats.at("transformer")) - weights(int8.at("transformer")), saved);
  EXPECT_EQ(weights(floats.at("vae")), weights(int8.at("vae")));
  const ProcessResult text = run_difflet(joined(inspect, {"--quant", "w8a16"}));
  EXPECT_NE(text.out.find("double.attention   w8a16            8 layers"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("not quantised: it has no layers that can be"), std::string::npos)
      << text.out;
}

TEST_P(QuantOptions, InspectCountsTheParametersOfTheModel) {
  const Arguments inspect{"inspect", "--model",   (model_ / "transformer").string(),
                          "--json",  "--backend", GetParam()};
  const auto parameters = [&] {
    const ProcessResult result = run_difflet(inspect);
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out, "inspect").at("parameters").get<std::int64_t>();
  };
  const std::int64_t floats = parameters();
  quantise_folder(model_ / "transformer", kWeights, "w8a8");
  EXPECT_EQ(parameters(), floats);
}

INSTANTIATE_TEST_SUITE_P(Backends, QuantOptions, ::testing::Values("reference", "cpu"));

}  // namespace
}  // namespace difflet::testing
