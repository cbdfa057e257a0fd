// What every layer may use without asking the environment: threads, a log, and where time goes.
#pragma once

#include <string>

#include "difflet/base/log.h"
#include "difflet/base/thread_pool.h"
#include "difflet/base/timings.h"

namespace difflet {

struct Context {
  Log& log;
  ThreadPool& threads;
  Timings* timings = nullptr;  // null: nobody wants to know

  void record(std::string phase, double seconds, std::string detail = "") const {
    if (timings != nullptr) {
      timings->add(std::move(phase), seconds, std::move(detail));
    }
  }
};

}  // namespace difflet
