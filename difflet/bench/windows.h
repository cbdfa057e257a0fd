// The window method: rates of a machine that others use too, from windows of a few milliseconds of
// which those count in which no thread that takes part was descheduled.
#pragma once

#include <functional>
#include <vector>

namespace difflet::bench {

// A rate over the windows that counted; zeros when none did.
struct Measured {
  double median = 0, low = 0, high = 0;  // low and high: the 5th and 95th of 100
  int windows = 0;
};

// One window's work of one thread, 1 ... 8 ms; gives the units (operations, bytes) that it did.
using Work = std::function<double()>;

// What the threads compete for, which decides when a window counts.
enum class Resource {
  Core,    // nothing: each thread's windows count for themselves
  Shared,  // caches or memory: all threads begin together, and a window counts for all or for none
};

struct WindowOptions {
  Resource resource = Resource::Core;
  int windows = 25;       // that should count
  double budget_s = 0.5;  // no window begins later than this after the first
};

// Runs `threads[i]` on a thread of its own each, the first on the calling one, after one run of each
// that does not count. The rate is in units a second and thread.
Measured measure(const std::vector<Work>& threads, const WindowOptions& options);

// Median and spread of rates.
Measured summary_of(std::vector<double> rates);

// CPU time of all threads of this process so far.
double process_cpu_seconds();

}  // namespace difflet::bench
