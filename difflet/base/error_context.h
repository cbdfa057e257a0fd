// What an error concerns, added on its way up.
#pragma once

#include "difflet/base/error.h"

namespace difflet {

// Runs `f`. An Error of that code that it throws gets the context `what()`, a text.
template <typename What, typename F>
auto with_context(ErrorCode code, const What& what, const F& f) {
  try {
    return f();
  } catch (Error& e) {
    if (e.code() == code) {
      e.add_context(what());
    }
    throw;
  }
}

}  // namespace difflet
