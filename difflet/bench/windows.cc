#include "difflet/bench/windows.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <thread>

namespace difflet::bench {
namespace {

// Of wall time, what a thread that nobody interrupted has as CPU time; the clocks themselves cost some.
constexpr double kUndisturbed = 0.993;
// Of the time from the first begin to the last end, what all threads of a shared window must share.
constexpr double kOverlap = 0.9;

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Window {
  double begin = 0, end = 0, units = 0;
  bool undisturbed = false;

  double rate() const { return units / (end - begin); }
};

Window run_window(const Work& work) {
  Window w;
  const double cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
  w.begin = seconds(CLOCK_MONOTONIC);
  w.units = work();
  w.end = seconds(CLOCK_MONOTONIC);
  w.undisturbed = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu >= kUndisturbed * (w.end - w.begin);
  return w;
}

// Runs `body` with each thread's number, 0 on the calling thread.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < count; ++t) {
    others.emplace_back(body, t);
  }
  body(0);
  for (std::thread& other : others) {
    other.join();
  }
}

// Threads that have enough windows go on working until all have, so that the others are not measured
// on a machine at rest.
std::vector<double> own_windows(const std::vector<Work>& threads, const WindowOptions& options) {
  std::vector<std::vector<double>> rates(threads.size());
  std::atomic<std::size_t> unfinished{threads.size()};
  on_threads(threads.size(), [&](std::size_t t) {
    threads[t]();
    bool finished = false;
    const double last = seconds(CLOCK_MONOTONIC) + options.budget_s;
    while (unfinished.load() > 0) {
      if (const Window w = run_window(threads[t]); w.undisturbed) {
        rates[t].push_back(w.rate());
      }
      const bool enough = rates[t].size() >= static_cast<std::size_t>(options.windows);
      if (!finished && (enough || seconds(CLOCK_MONOTONIC) > last)) {
        finished = true;
        --unfinished;
      }
    }
  });
  std::vector<double> all;
  for (const std::vector<double>& mine : rates) {
    all.insert(all.end(), mine.begin(), mine.end());
  }
  return all;
}

// Everybody waits for everybody: at first without letting go of the core, to begin together.
class Gate {
 public:
  explicit Gate(std::size_t threads) : threads_(threads) {}
  void pass() {
    const std::size_t round = round_.load();
    if (++waiting_ == threads_) {
      waiting_ = 0;
      ++round_;
      return;
    }
    for (int spins = 0; round_.load() == round; ++spins) {
      if (spins > kSpins) {
        std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr int kSpins = 20'000;  // tens of microseconds
  std::size_t threads_;
  std::atomic<std::size_t> waiting_{0}, round_{0};
};

// The rate of one thread in a window of all, 0 when it does not count.
double shared_rate(const std::vector<Window>& windows) {
  double first_begin = windows[0].begin;
  double last_begin = first_begin;
  double first_end = windows[0].end;
  double last_end = first_end;
  double units = 0;
  for (const Window& w : windows) {
    if (!w.undisturbed) {
      return 0;
    }
    first_begin = std::min(first_begin, w.begin);
    last_begin = std::max(last_begin, w.begin);
    first_end = std::min(first_end, w.end);
    last_end = std::max(last_end, w.end);
    units += w.units;
  }
  const double all = last_end - first_begin;
  return first_end - last_begin >= kOverlap * all
             ? units / all / static_cast<double>(windows.size())
             : 0;
}

std::vector<double> shared_windows(const std::vector<Work>& threads, const WindowOptions& options) {
  std::vector<double> rates;
  std::vector<Window> windows(threads.size());
  Gate gate(threads.size());
  std::atomic<bool> done{false};
  on_threads(threads.size(), [&](std::size_t t) {
    threads[t]();
    const double last = seconds(CLOCK_MONOTONIC) + options.budget_s;
    while (true) {
      gate.pass();
      if (done) {
        return;
      }
      windows[t] = run_window(threads[t]);
      gate.pass();
      if (t == 0) {  // the others wait at the next gate
        if (const double rate = shared_rate(windows); rate > 0) {
          rates.push_back(rate);
        }
        done = rates.size() >= static_cast<std::size_t>(options.windows) ||
               seconds(CLOCK_MONOTONIC) > last;
      }
    }
  });
  return rates;
}

}  // namespace

Measured summary_of(std::vector<double> rates) {
  if (rates.empty()) {
    return {};
  }
  std::sort(rates.begin(), rates.end());
  const auto at = [&rates](double share) {
    return rates[static_cast<std::size_t>(
        std::lround(share * static_cast<double>(rates.size() - 1)))];
  };
  return {.median = at(0.5),
          .low = at(0.05),
          .high = at(0.95),
          .windows = static_cast<int>(rates.size())};
}

Measured measure(const std::vector<Work>& threads, const WindowOptions& options) {
  return summary_of(options.resource == Resource::Core ? own_windows(threads, options)
                                                       : shared_windows(threads, options));
}

double process_cpu_seconds() { return seconds(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace difflet::bench
