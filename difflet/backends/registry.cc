#include "difflet/backends/registry.h"

#include <array>

#include "difflet/backends/bands/backend.h"
#include "difflet/backends/cpu/backend.h"
#include "difflet/backends/reference/reference.h"
#include "difflet/base/error.h"

namespace difflet::backends {
namespace {

const cpu::CpuBackend kCpu;
const reference::ReferenceBackend kReference;
const bands::BandBackend kCpuInBands(kCpu);
const bands::BandBackend kReferenceInBands(kReference);
constexpr std::array<const runtime::Backend*, 2> kBackends{&kCpuInBands, &kReferenceInBands};

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all;
  all.reserve(kBackends.size());
  for (const runtime::Backend* b : kBackends) {
    all.emplace_back(b->name());
  }
  return all;
}

const runtime::Backend& find(std::string_view name) {
  for (const runtime::Backend* b : kBackends) {
    if (b->name() == name) {
      return *b;
    }
  }
  fail(ErrorCode::InvalidArgument, "unknown backend '{}'; this build has {}", name,
       fmt::join(names(), ", "));
}

}  // namespace difflet::backends
