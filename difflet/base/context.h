// What every layer may use without asking the environment: threads and a log.
#pragma once

#include "difflet/base/log.h"
#include "difflet/base/thread_pool.h"

namespace difflet {

struct Context {
  Log& log;
  ThreadPool& threads;
};

}  // namespace difflet
