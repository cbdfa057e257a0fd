// difflet quantize, from arguments to a folder that other commands load.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/cli/process.h"
#include <gmock/gmock.h>

#include "difflet/base/json.h"
#include "difflet/io/checkpoint.h"
#include "difflet/io/image.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

class Quantize : public ::testing::Test {
 protected:
  Arguments words(const Arguments& more, const std::string& output = "out") const {
    Arguments all{"quantize",
                  "--model",
                  model_.string(),
                  "--output",
                  (folder_ / output).string(),
                  "--quiet",
                  "--threads",
                  "2",
                  "--max-sequence-length",
                  "16"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // One short prompt, two steps.
  Arguments calibrated(const Arguments& more = {}) {
    write(folder_ / "prompts.txt", "a circle\n");
    Arguments all{"--quant", "w8a8",          "--steps",
                  "2",       "--calibration", (folder_ / "prompts.txt").string()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // The events of a run that must succeed.
  std::vector<Json> events(const Arguments& more, const std::string& output = "out") {
    Arguments all = words(more, output);
    all.emplace_back("--json");
    const ProcessResult result = run_difflet(all);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<Json> events;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      events.push_back(parse_json(line, "event"));
    }
    return events;
  }
  // Makes the model one text encoder, the golden one with its weights changed, and writes inputs for it to
  // in.safetensors. Returns the weights.
  template <typename Change>
  std::map<std::string, HostTensor> take_encoder(const Change& change) {
    const io::Checkpoint original = io::Checkpoint::open(model_ / "text_encoder_2");
    std::map<std::string, HostTensor> tensors;
    for (const std::string& name : original.names()) {
      std::vector<float> values = original.tensor(name).to_floats();
      const Shape shape = original.entry(name).shape;
      change(name, shape, values);
      tensors.emplace(name, HostTensor::from(shape, std::span<const float>(values)));
    }
    fs::create_directory(folder_ / "t5");
    fs::copy(model_ / "text_encoder_2/config.json", folder_ / "t5/config.json");
    io::write_safetensors(folder_ / "t5/model.safetensors", tensors);
    io::write_safetensors(folder_ / "in.safetensors",
                          {{"input_ids", HostTensor(DType::I32, {1, 8})}});
    model_ = folder_ / "t5";
    return tensors;
  }
  // Refused, and nothing is left.
  void refused(const Arguments& more, const std::string& part, const ProcessOptions& options = {},
               ErrorCode code = ErrorCode::InvalidArgument) {
    expect_refused(words(more), exit_status(code), part, options);
    EXPECT_FALSE(fs::exists(folder_ / "out")) << part;
    for (const std::string& file : files_in(folder_.path())) {
      EXPECT_FALSE(file.starts_with(".difflet-")) << part << ": " << file;
    }
  }
  io::Image picture(const fs::path& model, const Arguments& more = {}) {
    Arguments all{"generate",
                  "--model",
                  model.string(),
                  "--output",
                  (folder_ / "x.png").string(),
                  "--prompt",
                  "a moon",
                  "--quiet",
                  "--max-sequence-length",
                  "16",
                  "--steps",
                  "2",
                  "--artifact",
                  "off"};
    all.insert(all.end(), more.begin(), more.end());
    const ProcessResult result = run_difflet(all);
    EXPECT_EQ(result.status, 0) << result.err;
    return io::read_png(folder_ / "x.png");
  }

  TemporaryFolder folder_;
  fs::path model_ = fs::path(DIFFLET_SOURCE_DIR) / "demo";
};

TEST_F(Quantize, TheFolderMakesThePicturesOfQuantInOneGo) {
  const ProcessResult result = run_difflet(words({"--quant", "w8a16"}));
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("transformer (w8a16): "));
  EXPECT_THAT(result.out, HasSubstr("double.attention"));
  EXPECT_THAT(result.out, HasSubstr("text_encoder_2 (w8a16): "));
  EXPECT_TRUE(result.out.ends_with((folder_ / "out").string() + "\n"));
  const io::Image stored = picture(folder_ / "out");
  EXPECT_EQ(stored.rgb, picture(model_, {"--quant", "w8a16"}).rgb);
  EXPECT_NE(stored.rgb, picture(model_).rgb);
  EXPECT_EQ(files_in(folder_ / "out"), files_in(model_));
  // Large files that did not change are the same ones.
  const std::string vae = "vae/diffusion_pytorch_model.safetensors";
  EXPECT_TRUE(fs::equivalent(folder_ / "out" / vae, model_ / vae) ||
              fs::file_size(folder_ / "out" / vae) == fs::file_size(model_ / vae));
}

TEST_F(Quantize, W8a8IsSmoothedAndMeasuredOnPrompts) {
  const std::vector<Json> all =
      events(calibrated({"--save-calibration", (folder_ / "s.safetensors").string()}));
  std::map<std::string, Json> components;
  for (const Json& event : all) {
    if (event.at("event") == "component") {
      components[event.at("name")] = event;
    }
  }
  ASSERT_EQ(components.size(), 2U);
  for (const auto& [name, event] : components) {
    EXPECT_TRUE(event.at("measured").get<bool>());
    EXPECT_GT(event.at("smoothed").get<int>(), 0);
    EXPECT_LT(event.at("bytes_after"), event.at("bytes_before"));
    for (const Json& group : event.at("groups")) {
      const bool asked = group.at("group") != "modulation";  // only where it is named
      EXPECT_EQ(group.contains("worst_error"), asked) << group.dump();
    }
    const Json config = read_json_file(folder_ / "out" / name / "config.json");
    EXPECT_EQ(config.at("quantization_config").at("quant_method"), "difflet");
    EXPECT_EQ(config.at("quantization_config").at("kept"), event.at("kept"));
    const io::Checkpoint written = io::Checkpoint::open(folder_ / "out" / name);
    for (const auto& layer : config.at("quantization_config").at("layers").items()) {
      EXPECT_EQ(layer.value(), "w8a8+smooth");
      EXPECT_EQ(written.entry(layer.key() + "_int8").dtype, DType::I8);
      EXPECT_EQ(written.entry(layer.key() + "_smooth").dtype, DType::F32);
    }
    for (const auto& layer : event.at("kept").items()) {
      const std::string reason = layer.value();
      EXPECT_THAT(reason, ::testing::AnyOf("", HasSubstr("relative error")));
      EXPECT_TRUE(written.has(layer.key()));
    }
  }
  EXPECT_EQ(all.back().at("event"), "done");
  (void)picture(folder_ / "out");

  // The statistics alone give the same weights.
  events({"--quant", "w8a8", "--calibration", (folder_ / "s.safetensors").string()}, "again");
  const io::Checkpoint one = io::Checkpoint::open(folder_ / "out/text_encoder_2");
  const io::Checkpoint two = io::Checkpoint::open(folder_ / "again/text_encoder_2");
  for (const std::string& name : two.names()) {
    if (one.has(name)) {
      EXPECT_TRUE(std::ranges::equal(one.tensor(name).bytes(), two.tensor(name).bytes())) << name;
    }
  }
}

TEST_F(Quantize, GroupsAndComponentsNarrowIt) {
  const auto all =
      events({"--quant", "w8a16", "--component", "transformer", "--quant-groups", "single.*=none"});
  int components = 0;
  for (const Json& event : all) {
    if (event.at("event") == "component") {
      ++components;
      EXPECT_EQ(event.at("name"), "transformer");
      for (const Json& group : event.at("groups")) {
        const std::string name = group.at("group");
        const bool kept = name.starts_with("single.") || name == "modulation";
        EXPECT_EQ(group.at("kept"), kept ? group.at("layers") : Json(0)) << name;
      }
    }
  }
  EXPECT_EQ(components, 1);
  EXPECT_FALSE(
      read_json_file(folder_ / "out/text_encoder_2/config.json").contains("quantization_config"));
  (void)picture(folder_ / "out");
}

TEST_F(Quantize, OneComponentOnItsInputs) {
  HostTensor ids(DType::I32, {1, 8});
  io::write_safetensors(folder_ / "in.safetensors", {{"input_ids", ids}});
  const std::string inputs = (folder_ / "in.safetensors").string();
  model_ /= "text_encoder_2";
  const auto all = events({"--quant", "w8a8", "--inputs", inputs});
  EXPECT_TRUE(fs::exists(folder_ / "out/model.safetensors"));
  const ProcessResult result =
      run_difflet({"eval", "--model", (folder_ / "out").string(), "--inputs", inputs, "--output",
                   (folder_ / "o.safetensors").string(), "--quiet", "--artifact", "off"});
  EXPECT_EQ(result.status, 0) << result.err;
}

// A column of large weights that nothing reaches takes the precision of all others.
TEST_F(Quantize, ALayerOverItsBoundIsKept) {
  const std::string layer = "encoder.block.0.layer.0.SelfAttention.q.weight";
  const std::string norm = "encoder.block.0.layer.0.layer_norm.weight";
  const auto tensors =
      take_encoder([&](const std::string& name, const Shape& shape, std::vector<float>& values) {
        for (std::size_t i = 0; i < values.size() && (name == layer || name == norm);
             i += static_cast<std::size_t>(shape[shape.rank() - 1])) {
          values[i] = name == norm ? 0.0F : 1000.0F;
        }
      });
  // Unmeasured it is quantised too, which verify finds in the folder.
  events({"--quant", "w8a8", "--calibration", "none"}, "all");
  const ProcessResult found =
      run_difflet({"verify", "--model", model_.string(), "--quantized", (folder_ / "all").string(),
                   "--inputs", (folder_ / "in.safetensors").string(), "--quiet"});
  EXPECT_THAT(found.out, HasSubstr("better left out when the folder is made again with difflet "
                                   "quantize: --quant-groups " +
                                   layer + "=none"));
  EXPECT_THAT(found.out, ::testing::Not(HasSubstr("quantize keeps")));
  for (const std::string mode : {"w8a16", "w8a8"}) {
    const auto all =
        events({"--quant", mode, "--inputs", (folder_ / "in.safetensors").string()}, mode);
    const Json config = read_json_file(folder_ / mode / "config.json").at("quantization_config");
    EXPECT_EQ(config.at("kept").size(), 1U) << config.dump();
    EXPECT_THAT(config.at("kept").at(layer).get<std::string>(), HasSubstr("in " + mode));
    EXPECT_FALSE(config.at("layers").contains(layer));
    const io::Checkpoint written = io::Checkpoint::open(folder_ / mode);
    EXPECT_TRUE(std::ranges::equal(written.tensor(layer).bytes(), tensors.at(layer).bytes()));
    const ProcessResult result =
        run_difflet({"eval", "--model", (folder_ / mode).string(), "--inputs",
                     (folder_ / "in.safetensors").string(), "--output",
                     (folder_ / "o.safetensors").string(), "--quiet", "--artifact", "off"});
    EXPECT_EQ(result.status, 0) << result.err;
  }
}

// One weight of the encoder is NaN, or of another shape.
TEST_F(Quantize, NamesTheFileOfABadWeight) {
  const std::string layer = "encoder.block.0.layer.0.SelfAttention.q.weight";
  auto tensors = take_encoder(
      [&](const std::string& name, const Shape& /*shape*/, std::vector<float>& values) {
        values[0] = name == layer ? NAN : values[0];
      });
  const std::string place = model_.string() + ": model.safetensors: tensor '" + layer + "' holds";
  refused({"--quant", "w8a16"}, place, {}, ErrorCode::DataLoss);
  const Arguments inputs{"--quant", "w8a16", "--inputs", (folder_ / "in.safetensors").string()};
  refused(inputs, model_.string() + ": tensor '" + layer + "' holds", {}, ErrorCode::DataLoss);
  refused({"--quant", "w8a8", "--inputs", inputs.back()}, model_.string() + ": ", {},
          ErrorCode::DataLoss);
  // With another shape: the folder is named once.
  tensors.at(layer) = HostTensor(DType::F32, {1, 1});
  io::write_safetensors(folder_ / "t5/model.safetensors", tensors);
  const ProcessResult result = run_difflet(words(inputs));
  EXPECT_EQ(result.status, exit_status(ErrorCode::DataLoss));
  const std::size_t first = result.err.find(model_.string());
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(model_.string(), first + 1), std::string::npos) << result.err;
}

TEST_F(Quantize, RefusesWhatCannotBe) {
  refused({"--quant", "w4a4"}, "w8a16");
  refused({"--quant", "none"}, "nothing to quantise");
  refused({"--quant", "w8a16", "--component", "vae"}, "no layers that can be quantised");
  refused({"--quant", "w8a16", "--component", "nose"}, "no component 'nose'", {},
          ErrorCode::NotFound);
  refused({"--quant", "w8a16", "--quant-groups", "time_text_embed*=w8a8"}, "time_text_embed");
  refused({"--quant", "w8a16", "--quant-groups", "nose=w8a8"}, "the groups are");
  refused({"--quant", "w8a16", "--quant-groups", "*=none"}, "leave nothing to quantise");
  refused({"--quant", "w8a16", "--save-calibration", "x.safetensors"}, "nothing is run");
}

TEST_F(Quantize, RefusesCalibrationsThatDoNotFit) {
  const auto with = [&](const std::string& file, const std::string& part,
                        ErrorCode code = ErrorCode::InvalidArgument) {
    refused({"--quant", "w8a8", "--calibration", (folder_ / file).string()}, part, {}, code);
  };
  with("absent.txt", "absent.txt", ErrorCode::NotFound);
  write(folder_ / "empty.txt", "");
  with("empty.txt", "holds no prompt");
  write(folder_ / "blank.txt", " \n\n\t\n");
  with("blank.txt", "holds no prompt");
  write(folder_ / "binary.txt", std::string("a\nb\xff\n"));
  with("binary.txt", "not text in UTF-8, one prompt a line (line 2)");
  write(folder_ / "zero.txt", std::string("a\0b", 3));
  with("zero.txt", "(line 1)");
  write(folder_ / "large.txt", std::string(2'000'000, 'x'));
  with("large.txt", "larger than", ErrorCode::ResourceExhausted);
  io::write_safetensors(folder_ / "weights.safetensors", {{"a", HostTensor(DType::F32, {1})}});
  with("weights.safetensors", "not a file of calibration statistics");
  io::write_safetensors(folder_ / "other.safetensors", {},
                        {{"format", "difflet-calibration"}, {"class/transformer", "Other"}});
  with("other.safetensors", "the calibration does not fit");
  // What a file holds tells what it is.
  fs::copy(folder_ / "other.safetensors", folder_ / "other.txt");
  with("other.txt", "the calibration does not fit");
  fs::copy(folder_ / "weights.safetensors", folder_ / "WEIGHTS.SAFETENSORS");
  with("WEIGHTS.SAFETENSORS", "not a file of calibration statistics");
  write(folder_ / "good.txt", "a\n");
  model_ /= "transformer";
  with("good.txt", "prompts take a whole pipeline");
  refused({"--quant", "w8a8"}, "--calibration none");
}

TEST_F(Quantize, TouchesNoFolderThatHoldsSomething) {
  fs::create_directory(folder_ / "out");
  write(folder_ / "out/mine", "x");
  expect_refused(words({"--quant", "w8a16"}), exit_status(ErrorCode::InvalidArgument),
                 "is not empty");
  EXPECT_EQ(files_in(folder_ / "out"), Arguments{"mine"});
  fs::remove(folder_ / "out/mine");
  events({"--quant", "w8a16", "--component", "text_encoder_2"});
  EXPECT_TRUE(fs::exists(folder_ / "out/model_index.json"));
  // A quantised folder is not quantised again.
  model_ = folder_ / "out";
  expect_refused(words({"--quant", "w8a16"}, "again"), exit_status(ErrorCode::InvalidArgument),
                 "cannot be quantised again");
  expect_refused(words({"--quant", "w8a16"}, "absent/again"), exit_status(ErrorCode::NotFound),
                 "there is no folder");
  write(folder_ / "file", "x");
  expect_refused(words({"--quant", "w8a16"}, "file"), exit_status(ErrorCode::InvalidArgument),
                 "it is not a folder");
}

TEST_F(Quantize, FoldersBesideTheOutputStay) {
  fs::create_directory(folder_ / "out.partial");
  write(folder_ / "out.partial/mine", "precious");
  write(folder_ / "two.partial", "x");
  const Arguments quick{"--quant", "w8a16", "--component", "text_encoder_2"};
  events(quick);
  events(quick, "two");
  EXPECT_EQ(files_in(folder_ / "out.partial"), Arguments{"mine"});
  EXPECT_TRUE(fs::is_regular_file(folder_ / "two.partial"));
}

TEST_F(Quantize, LinksInPlaceOfTheOutput) {
  fs::create_symlink("nowhere", folder_ / "dangling");
  expect_refused(words({"--quant", "w8a16"}, "dangling"), exit_status(ErrorCode::InvalidArgument),
                 "dangling': it is a link to 'nowhere', which is not there");
  fs::create_directory(folder_ / "empty");
  fs::create_symlink("empty", folder_ / "link");
  events({"--quant", "w8a16", "--component", "text_encoder_2"}, "link");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::exists(folder_ / "empty/model_index.json"));
  expect_refused(words({"--quant", "w8a16"}, "/proc/q"), exit_status(ErrorCode::Unavailable),
                 "nothing can be written in '/proc'");
}

TEST_F(Quantize, TheStatisticsReplaceNoInput) {
  fs::copy(model_, folder_ / "model", fs::copy_options::recursive);
  model_ = folder_ / "model";
  const fs::path weights = model_ / "vae/diffusion_pytorch_model.safetensors";
  const auto size = fs::file_size(weights);
  const auto saved = [&](const fs::path& file, const std::string& part) {
    refused(calibrated({"--save-calibration", file.string()}), part);
  };
  fs::create_symlink(weights, folder_ / "link.safetensors");
  fs::create_hard_link(model_ / "model_index.json", folder_ / "hard");
  for (const fs::path& file : {folder_ / "prompts.txt", weights, folder_ / "link.safetensors",
                               folder_ / "hard", model_ / "vae/../transformer/config.json"}) {
    write(folder_ / "prompts.txt", "a circle\n");
    saved(file, "it is not overwritten");
  }
  EXPECT_EQ(fs::file_size(weights), size);
  saved(folder_ / "out", "is the folder of --output");
  fs::create_directory(folder_ / "full");
  expect_refused(words(calibrated({"--save-calibration", (folder_ / "full/s").string()}), "full"),
                 exit_status(ErrorCode::InvalidArgument), "is the folder of --output or in it");
}

TEST_F(Quantize, NeedsAPlaceToWriteTo) {
  if (::getuid() == 0) {
    fs::permissions(folder_.path(),
                    fs::perms::owner_all | fs::perms::others_read | fs::perms::others_exec);
    refused({"--quant", "w8a16"}, "Permission denied", {.user = 65534}, ErrorCode::Unavailable);
  }
  fs::create_directory(folder_ / "disk");
  const ProcessResult result =
      run_difflet(words({"--quant", "w8a16"}, "disk/out"), {.small_disk = folder_ / "disk"});
  if (result.status != kNoMount) {
    EXPECT_EQ(result.status, exit_status(ErrorCode::ResourceExhausted));
    EXPECT_THAT(result.err, HasSubstr("of disk"));
  }
  // The size limit of a file stands in for a disk that fills up meanwhile.
  refused({"--quant", "w8a16"}, "cannot write", {.file_limit = 500'000},
          ErrorCode::ResourceExhausted);
}

TEST_F(Quantize, CtrlCLeavesNothing) {
  Arguments all = words(calibrated());
  std::erase(all, "--quiet");
  *(std::ranges::find(all, "--steps") + 1) = "1000";
  const ProcessResult result =
      run_difflet(all, {.stop_signal = SIGINT, .stop_after = "step 2/1000"});
  EXPECT_EQ(result.status, exit_status(ErrorCode::Cancelled)) << result.err;
  EXPECT_LT(result.seconds_after_signal, 5);
  EXPECT_EQ(files_in(folder_.path()), Arguments{"prompts.txt"});
}

}  // namespace
}  // namespace difflet::testing
