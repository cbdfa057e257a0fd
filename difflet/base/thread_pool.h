// Threads owned by the engine: a fixed team, pinned to cores, that runs one parallel loop at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace difflet {

// A borrowed callable (no allocation); valid for the duration of the call it is passed to.
class TaskRef {
 public:
  template <typename F>
    requires(!std::is_same_v<std::decay_t<F>, TaskRef>)
  TaskRef(const F& f)  // NOLINT(google-explicit-constructor): call sites pass lambdas
      : object_(&f), call_([](const void* o, std::int64_t task, int thread) {
          (*static_cast<const F*>(o))(task, thread);
        }) {}
  void operator()(std::int64_t task, int thread) const { call_(object_, task, thread); }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, int);
};

class ThreadPool {
 public:
  // `threads` includes the caller; 0 means one for each core that this process may use. Workers are
  // pinned through hwloc when there are at least as many cores as threads, and leave the core where the
  // caller runs to it.
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;
  // Calls f(task, thread) for each task in [0, tasks), 0 <= thread < size(); tasks are handed out in
  // order to whichever thread is free. Returns when all are done. The first exception thrown by a
  // task is rethrown here; tasks not yet begun are then skipped. Not reentrant: throws Internal.
  void run(std::int64_t tasks, TaskRef f);

 private:
  struct Impl;
  void stop_workers() noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet
