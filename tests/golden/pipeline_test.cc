// Whole pipelines against diffusers' pictures: 50 dB in f32, 30 dB in bf16.
#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/golden/golden.h"

#include "difflet/backends/registry.h"
#include "difflet/base/testing.h"
#include "difflet/pipelines/flux_pipeline.h"
#include "difflet/tensor/compare.h"

namespace difflet::pipelines {
namespace {

class Recorder : public Observer {
 public:
  void tensor(std::string_view name, const HostTensor& value) override {
    tensors.insert_or_assign(std::string(name), value);
  }
  void step(std::int64_t /*done*/, std::int64_t /*total*/, double /*seconds*/) override { ++steps; }
  std::map<std::string, HostTensor> tensors;
  int steps = 0;
};

GenerateRequest read_request(const Json& c) {
  GenerateRequest request{.prompt = c.at("prompt").get<std::string>(),
                          .negative_prompt = {},
                          .width = c.at("width").get<std::int64_t>(),
                          .height = c.at("height").get<std::int64_t>(),
                          .n = c.at("num_images_per_prompt").get<std::int64_t>(),
                          .steps = c.at("num_inference_steps").get<std::int64_t>(),
                          .guidance = c.at("guidance_scale").get<double>(),
                          .true_cfg_scale = c.at("true_cfg_scale").get<double>(),
                          .seed = c.at("seed").get<std::uint64_t>(),
                          .max_sequence_length = c.at("max_sequence_length").get<std::int64_t>()};
  if (!c.at("negative_prompt").is_null()) {
    request.negative_prompt = c.at("negative_prompt").get<std::string>();
  }
  return request;
}

std::vector<std::uint8_t> pixels_of(const std::vector<io::Image>& images) {
  std::vector<std::uint8_t> pixels;
  for (const io::Image& image : images) {
    pixels.insert(pixels.end(), image.rgb.begin(), image.rgb.end());
  }
  return pixels;
}

double psnr(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  double squares = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += d * d;
  }
  return squares == 0 ? INFINITY
                      : 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / squares);
}

// Says for each intermediate result how far it is from the original's: where a failure begins.
std::string explain(const Recorder& recorder, const io::SafetensorsFile& expected) {
  std::string text;
  for (const auto& [name, tensor] : recorder.tensors) {
    if (expected.entries().contains(name) && is_float(tensor.dtype())) {
      text += fmt::format("  {}: {}\n", name, compare(tensor, expected.tensor(name)).str());
    }
  }
  return text;
}

struct Case {
  std::string name;
  std::filesystem::path folder, model;
  std::string backend;
  DType dtype;
};

void PrintTo(const Case& c,
             std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's
  *out << c.folder;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](const std::string& name, const std::filesystem::path& folder,
                       const std::filesystem::path& model) {
    for (const DType dtype : {DType::F32, DType::BF16}) {
      all.push_back({name, folder, model, "cpu", dtype});
    }
  };
  for (const std::string name : {"dev", "schnell", "true_cfg"}) {
    const auto folder = golden::data("pipelines/" + name);
    add(name, folder, folder / "model");
  }
  const Case schnell = all[2];
  all.push_back({schnell.name, schnell.folder, schnell.model, "reference", DType::F32});
  const auto demo = golden::data("demo");
  for (int i = 0; std::filesystem::exists(demo / std::to_string(i)); ++i) {
    add(fmt::format("demo{}", i), demo / std::to_string(i),
        std::filesystem::path(DIFFLET_SOURCE_DIR) / "demo");
  }
  return all;
}

class PipelineGolden : public ::testing::TestWithParam<Case> {};

PipelineOptions options_of(const std::string& backend, DType dtype, std::size_t memory_limit = 0) {
  return {.build = {.dtype = dtype,
                    .variant = "",
                    .backend = &backends::find(backend),
                    .backend_options = {.cpu_level = "", .memory_limit = memory_limit}},
          .artifacts = {},
          .sizes = {}};
}

TEST_P(PipelineGolden, PictureIsTheOriginals) {
  const auto& [name, folder, model, backend, dtype] = GetParam();
  Log log(LogLevel::Off);
  ThreadPool threads(2);
  Context context{.log = log, .threads = threads};
  FluxPipeline pipeline(model, options_of(backend, dtype), context);
  const GenerateRequest request =
      pipeline.resolved(read_request(read_json_file(folder / "case.json")));
  Recorder recorder;
  const std::vector<std::uint8_t> pixels = pixels_of(pipeline.generate(request, recorder));
  EXPECT_EQ(recorder.steps, request.steps);

  const std::filesystem::path file =
      folder / fmt::format("expected_{}.safetensors", dtype_name(dtype));
  const auto expected = io::SafetensorsFile::open(file);
  for (const auto& [tensor, value] : recorder.tensors) {
    if (value.dtype() == DType::I32) {
      EXPECT_EQ(value.to_floats(), expected.tensor(tensor).to_floats()) << tensor;
    }
  }
  const double decibels = psnr(pixels, golden::read_u8(file, "pixels"));
  RecordProperty("psnr", fmt::format("{:.1f}", decibels));
  EXPECT_GE(decibels, dtype == DType::F32 ? 50 : 30) << explain(recorder, expected);

  // A second request with the same programs makes the same picture.
  EXPECT_EQ(pixels_of(pipeline.generate(request, recorder)), pixels);
}

INSTANTIATE_TEST_SUITE_P(Diffusers, PipelineGolden, ::testing::ValuesIn(cases()),
                         [](const auto& test) {
                           return fmt::format("{}_{}_{}", test.param.name, test.param.backend,
                                              dtype_name(test.param.dtype));
                         });

// With less memory than all programs take together each is let go after its stage; with less than
// one takes nothing is loaded.
TEST(PipelineResident, LittleMemoryMakesTheSamePicture) {
  Log log(LogLevel::Off);
  ThreadPool threads(2);
  Context context{.log = log, .threads = threads};
  const auto with_limit = [&](std::size_t limit) { return options_of("cpu", DType::BF16, limit); };
  const std::filesystem::path model = golden::data("pipelines/schnell/model");
  const GenerateRequest small{.prompt = "a moon",
                              .negative_prompt = {},
                              .width = 32,
                              .height = 32,
                              .n = 3,
                              .steps = 2,
                              .max_sequence_length = 64};
  Observer observer;
  FluxPipeline large(model, with_limit(0), context);
  const GenerateRequest request = large.resolved(small);
  std::size_t sum = 0;
  std::size_t largest = 0;
  for (const ComponentMemory& component : large.prepare(request)) {
    sum += component.bytes;
    largest = std::max(largest, component.bytes);
  }
  const auto picture = pixels_of(large.generate(request, observer));

  FluxPipeline little(model, with_limit(sum - 1), context);
  EXPECT_EQ(pixels_of(little.generate(request, observer)), picture);
  EXPECT_EQ(pixels_of(little.generate(request, observer)), picture);

  FluxPipeline none(model, with_limit(largest - 1), context);
  EXPECT_ERROR(none.generate(request, observer), ErrorCode::ResourceExhausted, "of memory");
}

TEST(PipelineResident, AnotherRequestBetweenChangesNothing) {
  Log log(LogLevel::Off);
  ThreadPool threads(2);
  Context context{.log = log, .threads = threads};
  FluxPipeline pipeline(golden::data("pipelines/schnell/model"), options_of("cpu", DType::BF16),
                        context);
  GenerateRequest request{.prompt = "a moon",
                          .negative_prompt = {},
                          .width = 32,
                          .height = 32,
                          .steps = 2,
                          .max_sequence_length = 64};
  Observer observer;
  const auto first = pixels_of(pipeline.generate(pipeline.resolved(request), observer));
  GenerateRequest other = request;
  other.prompt = "three cats";
  other.width = 40;
  other.n = 2;
  EXPECT_NE(pixels_of(pipeline.generate(pipeline.resolved(other), observer)), first);
  EXPECT_EQ(pixels_of(pipeline.generate(pipeline.resolved(request), observer)), first);
}

}  // namespace
}  // namespace difflet::pipelines
