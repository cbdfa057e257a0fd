// The processor cores that this process may run on.
#pragma once

#include <pthread.h>

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
  // Binds a thread to core i, 0 <= i < count(). False when the system refuses.
  bool bind(pthread_t thread, int i) const noexcept;
  // The core on which the calling thread runs at this moment; -1 when that is none of these.
  int current() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet
