// Where the time of a start went: named phases, recorded from any thread.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace difflet {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Timings {
 public:
  struct Phase {
    std::string name;  // "transformer: weights"
    double seconds = 0;
    std::string detail;  // "2.6 GB mapped"; may be empty
  };

  void add(std::string name, double seconds, std::string detail = "") {
    const std::lock_guard lock(mutex_);
    phases_.push_back({std::move(name), seconds, std::move(detail)});
  }
  std::vector<Phase> phases() const {
    const std::lock_guard lock(mutex_);
    return phases_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Phase> phases_;
};

}  // namespace difflet
