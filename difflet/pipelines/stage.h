// Running a stage of a pipeline under an observer's eyes.
#pragma once

#include <chrono>
#include <string_view>
#include <type_traits>
#include <utility>

#include "difflet/pipelines/observer.h"

namespace difflet::pipelines {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The result of f(); the observer may stop it before, and hears of its begin and its end.
template <typename F>
auto run_stage(Observer& observer, std::string_view name, F&& f) {
  observer.check_stop();
  observer.stage_begin(name);
  const Stopwatch watch;
  if constexpr (std::is_void_v<decltype(f())>) {
    std::forward<F>(f)();
    observer.stage_end(name, watch.seconds());
  } else {
    auto result = std::forward<F>(f)();
    observer.stage_end(name, watch.seconds());
    return result;
  }
}

}  // namespace difflet::pipelines
