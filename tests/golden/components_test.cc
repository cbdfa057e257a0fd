// Every component against the original implementation, on each backend, at each kernel level of the
// chip, in f32 and bf16. Tolerances: docs/numerics.md.
#include <cmath>
#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/backends/registry.h"
#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/compile/component.h"
#include "difflet/io/safetensors.h"
#include "difflet/models/common/component.h"
#include "difflet/runtime/backend.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;

constexpr double kF32Tolerance = 1e-4;
constexpr double kBf16Factor = 2;            // times the original's own bf16 error
constexpr double kRoundingTolerance = 3e-2;  // rounding_bf16: against the bf16 run itself

struct Case {
  fs::path folder;
  std::string backend, level;
  DType dtype = DType::F32;
};

std::string case_name(const Case& c) {
  std::string name = c.folder.parent_path().filename().string() + "_" +
                     c.folder.filename().string() + "_" + c.backend + c.level + "_" +
                     std::string(dtype_name(c.dtype));
  return name;
}

std::vector<Case> cases() {
  std::vector<std::pair<std::string, std::string>> targets{{"reference", ""}};
  for (const cpu::Level level :
       {cpu::Level::Scalar, cpu::Level::Avx2, cpu::Level::Avx512, cpu::Level::Avx512Bf16}) {
    if (level <= cpu::detect_level()) {
      targets.emplace_back("cpu", std::string(cpu::level_name(level)));
    }
  }
  std::vector<Case> all;
  const fs::path data = fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data";
  for (const char* component : {"clip_text", "t5_encoder", "flux_transformer", "autoencoder_kl"}) {
    for (const auto& entry : fs::directory_iterator(data / component)) {
      for (const auto& [backend, level] : targets) {
        for (const DType dtype : {DType::F32, DType::BF16}) {
          all.push_back({entry.path(), backend, level, dtype});
        }
      }
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Case& a, const Case& b) { return case_name(a) < case_name(b); });
  return all;
}

struct Errors {
  double max = 0, rms = 0;
};

// max|got - want| / max|want| and rms(got - want) / rms(want).
Errors errors(const HostTensor& got, const HostTensor& want) {
  const std::vector<float> g = got.to_floats();
  const std::vector<float> w = want.to_floats();
  double diff = 0;
  double top = 0;
  double diff2 = 0;
  double want2 = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double d = std::abs(static_cast<double>(g[i]) - static_cast<double>(w[i]));
    diff = std::isnan(d) ? INFINITY : std::max(diff, d);
    top = std::max(top, std::abs(static_cast<double>(w[i])));
    diff2 += d * d;
    want2 += static_cast<double>(w[i]) * static_cast<double>(w[i]);
  }
  return {diff / top, std::sqrt(diff2 / want2)};
}

class Components : public testing::TestWithParam<Case> {
 protected:
  // Outputs by name.
  std::map<std::string, HostTensor> run(const std::string& variant) {
    const Case& c = GetParam();
    const auto component = compile::ComponentFolder::open(c.folder, "", variant, log_);
    const auto file = io::SafetensorsFile::open(c.folder / "inputs.safetensors");
    models::ShapeMap shapes;
    for (const auto& [name, entry] : file.entries()) {
      shapes[name] = entry.shape;
    }
    const graph::Graph g = component.trace(shapes, c.dtype);
    std::vector<HostTensor> inputs;
    for (const graph::NodeId id : g.inputs()) {
      const auto& input = std::get<graph::Input>(g.node(id).op);
      inputs.push_back(file.tensor(input.name).to(input.dtype));
    }
    Context context{log_, threads_};
    const auto weights = component.weights(threads_);
    const auto executable =
        backends::find(c.backend).load(g, *weights, context, {.cpu_level = c.level});
    const std::vector<HostTensor> results = executable->run(inputs);
    std::map<std::string, HostTensor> outputs;
    for (std::size_t i = 0; i < results.size(); ++i) {
      outputs[g.outputs()[i].name] = results[i];
    }
    return outputs;
  }

  Log log_{LogLevel::Error};
  ThreadPool threads_{2};
};

TEST_P(Components, EqualsTheOriginal) {
  const Case& c = GetParam();
  const Json info = read_json_file(c.folder / "case.json");
  const std::string variant = info["variant"].is_null() ? "" : info["variant"].get<std::string>();
  const auto outputs = run(variant);
  const auto f32 = io::SafetensorsFile::open(c.folder / "expected_f32.safetensors");
  for (const auto& [name, entry] : f32.entries()) {
    ASSERT_TRUE(outputs.contains(name)) << name;
    const HostTensor& got = outputs.at(name);
    ASSERT_EQ(got.shape(), entry.shape) << name;
    if (c.dtype == DType::F32) {
      const Errors e = errors(got, f32.tensor(name));
      EXPECT_LE(e.max, kF32Tolerance) << name;
      EXPECT_LE(e.rms, kF32Tolerance) << name;
    } else if (c.folder.filename() == "rounding_bf16") {
      const auto bf16 = io::SafetensorsFile::open(c.folder / "expected_bf16.safetensors");
      EXPECT_LE(errors(got, bf16.tensor(name)).max, kRoundingTolerance) << name;
    } else {
      const Json& own = info["bf16_error"][name];
      const Errors e = errors(got, f32.tensor(name));
      EXPECT_LE(e.max, kBf16Factor * own["max"].get<double>()) << name;
      EXPECT_LE(e.rms, kBf16Factor * own["rms"].get<double>()) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Components, testing::ValuesIn(cases()),
                         [](const auto& suite) { return case_name(suite.param); });

}  // namespace
}  // namespace difflet
