// torch.randn of a CPU generator.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/golden.h"

#include "difflet/base/error.h"
#include "difflet/base/rng.h"

namespace difflet {
namespace {

// f32 comes from log, cos and sin, which differ between libraries in the last places.
constexpr float kTolerance = 1e-6F;

std::size_t elements(const Json& shape) {
  std::size_t n = 1;
  for (const Json& extent : shape) {
    n *= extent.get<std::size_t>();
  }
  return n;
}

void check_case(const Json& c, const io::SafetensorsFile& file, DType dtype) {
  TorchGenerator generator(c.at("seed").get<std::uint64_t>());
  for (std::size_t call = 0; call < c.at("shapes").size(); ++call) {
    std::vector<float> values(elements(c.at("shapes")[call]));
    dtype == DType::F32 ? generator.randn(values) : generator.randn_half(values);
    const HostTensor got =
        HostTensor::from(Shape{static_cast<std::int64_t>(values.size())}, values).to(dtype);
    const std::string name =
        fmt::format("{}.{}.{}", c.at("index").get<int>(), dtype_name(dtype), call);
    const std::vector<float> want = file.tensor(name).to_floats();
    const std::vector<float> rounded = got.to_floats();
    ASSERT_EQ(rounded.size(), want.size()) << name;
    for (std::size_t i = 0; i < want.size(); ++i) {
      // A half type may fall to the other side of a rounding boundary: one unit in its last place.
      const float ulp = dtype == DType::F32   ? 0.0F
                        : dtype == DType::F16 ? std::abs(want[i]) / 1024
                                              : std::abs(want[i]) / 128;
      EXPECT_NEAR(rounded[i], want[i], std::max(kTolerance, ulp)) << name << "[" << i << "]";
    }
  }
}

TEST(NoiseGolden, EqualsTorch) {
  const Json cases = read_json_file(golden::data("noise/randn.json"));
  const auto file = io::SafetensorsFile::open(golden::data("noise/randn.safetensors"));
  ASSERT_FALSE(cases.empty());
  for (const Json& c : cases) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      check_case(c, file, dtype);
    }
  }
}

}  // namespace
}  // namespace difflet
