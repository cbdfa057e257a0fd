// What the fuzz targets share.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "difflet/base/error.h"

namespace difflet::fuzz {

// Ends the process, which the fuzzer reports, unless a law holds.
inline void law(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "law broken: %s\n", what);
    std::abort();
  }
}

// Runs f, which may refuse its input with any Error but Internal; any other exception ends the process.
template <typename F>
int refuse_or_accept(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& e) {
    law(e.code() != ErrorCode::Internal, e.what());
  }
  return 0;
}

}  // namespace difflet::fuzz
