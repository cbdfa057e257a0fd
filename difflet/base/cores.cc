#include "difflet/base/cores.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "difflet/base/error.h"

namespace difflet {
namespace {

namespace fs = std::filesystem;

constexpr double kUnlimited = 1e9;

// cpu.max of cgroup v2 holds "<quota or max> <period>" in microseconds.
double quota_in(const fs::path& file) {
  std::ifstream in(file);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) {
    return kUnlimited;
  }
  const double micros = std::strtod(quota.c_str(), nullptr);
  return micros > 0 ? micros / period : kUnlimited;
}

// The tightest quota of this process's group and its parents (cgroup v2; v1 is not looked at).
double cgroup_cores() {
  std::ifstream groups("/proc/self/cgroup");
  double cores = kUnlimited;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) {
      continue;
    }
    const fs::path root = "/sys/fs/cgroup";
    fs::path group = fs::path(line.substr(4)).lexically_normal();
    for (;; group = group.parent_path()) {
      cores = std::min(cores, quota_in(root / group / "cpu.max"));
      if (group.empty()) {
        break;
      }
    }
  }
  return cores;
}

// Leaves what the calling thread may use, which is what threads started by it inherit; hwloc's own flag
// asks for the union over all threads of the process.
void restrict_to_caller(hwloc_topology_t topology) {
  const hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (allowed != nullptr && hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) == 0) {
    (void)hwloc_topology_restrict(topology, allowed, 0);
  }
  hwloc_bitmap_free(allowed);
}

}  // namespace

struct Cores::Impl {
  hwloc_topology_t topology = nullptr;
  hwloc_obj_type_t type = HWLOC_OBJ_CORE;
  int count = 1;
  int usable = 1;
  std::vector<int> core_of;  // [hardware thread], -1 where there is none

  ~Impl() {
    if (topology != nullptr) {
      hwloc_topology_destroy(topology);
    }
  }
};

Cores::Cores() : impl_(std::make_unique<Impl>()) {
  check(hwloc_topology_init(&impl_->topology) == 0, ErrorCode::Unavailable,
        "cannot read the processor topology (hwloc)");
  // Only cores are asked for: devices and caches cost tens of milliseconds. The kernel knows them;
  // asking each processor itself, which needs a thread to run there, costs two more.
  (void)hwloc_topology_set_components(impl_->topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                      "x86");
  hwloc_topology_set_all_types_filter(impl_->topology, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(impl_->topology, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  check(hwloc_topology_load(impl_->topology) == 0, ErrorCode::Unavailable,
        "cannot read the processor topology (hwloc)");
  restrict_to_caller(impl_->topology);
  int found = hwloc_get_nbobjs_by_type(impl_->topology, HWLOC_OBJ_CORE);
  if (found <= 0) {  // some virtual machines show no cores
    impl_->type = HWLOC_OBJ_PU;
    found = hwloc_get_nbobjs_by_type(impl_->topology, HWLOC_OBJ_PU);
  }
  impl_->count = std::max(found, 1);
  for (int i = 0; i < found; ++i) {
    const hwloc_obj_t core =
        hwloc_get_obj_by_type(impl_->topology, impl_->type, static_cast<unsigned>(i));
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
      const auto needed = static_cast<std::size_t>(cpu) + 1;
      impl_->core_of.resize(std::max(impl_->core_of.size(), needed), -1);
      impl_->core_of[needed - 1] = i;
    }
  }
  impl_->usable =
      std::max(1, static_cast<int>(std::ceil(std::min<double>(impl_->count, cgroup_cores()))));
}

Cores::~Cores() = default;

int Cores::count() const noexcept { return impl_->count; }

int Cores::usable() const noexcept { return impl_->usable; }

bool Cores::bind(pthread_t thread, int i) const noexcept {
  const hwloc_obj_t object =
      hwloc_get_obj_by_type(impl_->topology, impl_->type, static_cast<unsigned>(i));
  return object != nullptr &&
         hwloc_set_thread_cpubind(impl_->topology, thread, object->cpuset, 0) == 0;
}

int Cores::current() const noexcept {
  const int cpu = ::sched_getcpu();
  return cpu >= 0 && static_cast<std::size_t>(cpu) < impl_->core_of.size()
             ? impl_->core_of[static_cast<std::size_t>(cpu)]
             : -1;
}

}  // namespace difflet
