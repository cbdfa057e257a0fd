// The processor cores that this process may run on.
#pragma once

#include <memory>

namespace difflet {

// A snapshot of the calling thread's affinity mask and the cgroup limits at construction.
class Cores {
 public:
  Cores();
  ~Cores();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // Cores (not hardware threads) in the affinity mask and cpuset, at least 1.
  int count() const noexcept;
  // The same, bounded by the CPU bandwidth that the cgroup grants (rounded up), at least 1.
  int usable() const noexcept;
  // Binds the calling thread to core i, 0 <= i < count(). False when the system refuses.
  bool bind_this_thread(int i) const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet
