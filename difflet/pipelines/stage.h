// Running a stage of a pipeline under an observer's eyes.
#pragma once

#include <string_view>
#include <type_traits>
#include <utility>

#include "difflet/base/timings.h"
#include "difflet/pipelines/observer.h"

namespace difflet::pipelines {

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
