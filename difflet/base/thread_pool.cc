#include "difflet/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "difflet/base/cores.h"
#include "difflet/base/error.h"

namespace difflet {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr int kMaxThreads = 4096;
// Tens of microseconds: longer than the gap between two loops of a step, short beside a time slice.
constexpr int kSpins = 2000;

void pause_cpu() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Returns once `word` differs from `old`: spins a little, then sleeps in the kernel.
void await_change(const std::atomic<std::uint32_t>& word, std::uint32_t old, int spins) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) {
      return;
    }
    pause_cpu();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

// One loop at a time. `job`, `tasks` belong to the loop and are published by the store to `left`;
// whoever takes a positive ticket from `left` holds a task of the current loop, which cannot end
// before that task is counted in `unfinished`. So a worker that wakes late finds no ticket or joins
// the loop of the moment, and no loop waits for threads that sleep.
struct ThreadPool::Impl {
  int size = 1;
  int spins = 0;
  std::vector<std::thread> workers;
  std::shared_ptr<const Cores> cores;  // null: workers are not bound
  std::vector<int> core_of_worker;     // [worker]
  int free_core = 0;                   // bound to no worker: the caller's

  const TaskRef* job = nullptr;
  std::int64_t tasks = 0;
  std::mutex error_mutex;
  std::exception_ptr error;
  std::atomic<bool> failed{false};
  std::atomic<bool> busy{false};
  std::atomic<bool> stop{false};

  alignas(kCacheLine) std::atomic<std::uint32_t> started{0};    // loops begun; workers wait on it
  alignas(kCacheLine) std::atomic<std::int64_t> left{0};        // tickets not handed out
  alignas(kCacheLine) std::atomic<std::int64_t> unfinished{0};  // tasks not completed
  alignas(kCacheLine) std::atomic<std::uint32_t> finished{
      0};  // loops whose last task a worker ended

  void run_task(const TaskRef& f, std::int64_t task, int thread) noexcept;
  bool take_tasks(int thread) noexcept;
  void work(int thread) noexcept;
  void loop_inline(std::int64_t count, const TaskRef& f);
  void loop_team(std::int64_t count, const TaskRef& f);
  void leave_callers_core() noexcept;
};

// After a failure the rest of the loop is counted but not run.
void ThreadPool::Impl::run_task(const TaskRef& f, std::int64_t task, int thread) noexcept {
  if (failed.load(std::memory_order_relaxed)) {
    return;
  }
  try {
    f(task, thread);
  } catch (...) {
    const std::lock_guard<std::mutex> lock(error_mutex);
    if (!error) {
      error = std::current_exception();
    }
    failed.store(true, std::memory_order_relaxed);
  }
}

// Runs tasks until none is left; true when this call completed the loop's last one.
bool ThreadPool::Impl::take_tasks(int thread) noexcept {
  std::int64_t done = 0;
  for (;; ++done) {
    const std::int64_t ticket = left.fetch_sub(1, std::memory_order_acq_rel);
    if (ticket <= 0) {
      break;
    }
    run_task(*job, tasks - ticket, thread);
  }
  return done > 0 && unfinished.fetch_sub(done, std::memory_order_acq_rel) == done;
}

void ThreadPool::Impl::work(int thread) noexcept {
  std::uint32_t seen = 0;
  while (true) {
    await_change(started, seen, spins);
    seen = started.load(std::memory_order_acquire);
    if (stop.load(std::memory_order_acquire)) {
      return;
    }
    if (take_tasks(thread)) {
      finished.fetch_add(1, std::memory_order_release);
      finished.notify_one();
    }
  }
}

void ThreadPool::Impl::loop_inline(std::int64_t count, const TaskRef& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    run_task(f, i, 0);
  }
}

// The caller may run anywhere. A worker bound to the core where it does is bound to the free one
// instead: on a busy machine the two would share that core for as long as the loops go on.
void ThreadPool::Impl::leave_callers_core() noexcept {
  const int here = cores->current();
  if (here == free_core) {
    return;
  }
  const auto owner = std::find(core_of_worker.begin(), core_of_worker.end(), here);
  if (owner != core_of_worker.end()) {
    const auto worker = static_cast<std::size_t>(owner - core_of_worker.begin());
    (void)cores->bind(workers[worker].native_handle(), free_core);  // a refusal costs speed only
    std::swap(*owner, free_core);
  }
}

void ThreadPool::Impl::loop_team(std::int64_t count, const TaskRef& f) {
  if (cores != nullptr) {
    leave_callers_core();
  }
  const std::uint32_t before = finished.load(std::memory_order_relaxed);
  job = &f;
  tasks = count;
  unfinished.store(count, std::memory_order_relaxed);
  left.store(count, std::memory_order_release);
  started.fetch_add(1, std::memory_order_release);
  started.notify_all();
  if (!take_tasks(0)) {
    await_change(finished, before, spins);
  }
}

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  check(threads >= 0 && threads <= kMaxThreads, ErrorCode::InvalidArgument,
        "{} threads: the number must be between 0 (one a core) and {}", threads, kMaxThreads);
  if (threads == 1) {
    return;
  }
  const auto cores = std::make_shared<const Cores>();
  impl_->size = threads == 0 ? cores->usable() : threads;
  if (impl_->size <= cores->count()) {
    impl_->cores = cores;
  }
  impl_->spins = impl_->size <= cores->usable() ? kSpins : 0;
  try {
    for (int i = 1; i < impl_->size; ++i) {
      impl_->workers.emplace_back([impl = impl_.get(), i] { impl->work(i); });
      impl_->core_of_worker.push_back(i);
      if (impl_->cores != nullptr) {
        (void)impl_->cores->bind(impl_->workers.back().native_handle(), i);
      }
    }
  } catch (const std::system_error& e) {
    const std::size_t made = impl_->workers.size();
    stop_workers();
    fail(ErrorCode::ResourceExhausted, "cannot start thread {} of {}: {}", made + 1, impl_->size,
         e.what());
  }
}

ThreadPool::~ThreadPool() { stop_workers(); }

void ThreadPool::stop_workers() noexcept {
  impl_->stop.store(true, std::memory_order_release);
  impl_->started.fetch_add(1, std::memory_order_release);
  impl_->started.notify_all();
  for (std::thread& worker : impl_->workers) {
    worker.join();
  }
  impl_->workers.clear();
}

int ThreadPool::size() const noexcept { return impl_->size; }

void ThreadPool::run(std::int64_t tasks, TaskRef f) {
  if (tasks <= 0) {
    return;
  }
  require(!impl_->busy.exchange(true, std::memory_order_acquire),
          "ThreadPool::run inside a task or from two threads at once");
  if (impl_->size == 1 || tasks == 1) {
    impl_->loop_inline(tasks, f);
  } else {
    impl_->loop_team(tasks, f);
  }
  std::exception_ptr error;
  if (impl_->failed.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(impl_->error_mutex);
    error = std::exchange(impl_->error, nullptr);
    impl_->failed.store(false, std::memory_order_relaxed);
  }
  impl_->busy.store(false, std::memory_order_release);
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace difflet
