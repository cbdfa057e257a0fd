// How a run is shown: a bar on a terminal, lines in a pipe, JSON events on standard output.
#pragma once

#include <memory>

#include "difflet/base/json.h"
#include "difflet/base/options.h"
#include "difflet/pipelines/observer.h"

namespace difflet::cli {

// Every one of them stops the run when a signal asked to.
std::unique_ptr<pipelines::Observer> make_progress(const OptionValues& options);

// One line of JSON on standard output; text that is not UTF-8 is replaced.
void print_event(const Json& event);

}  // namespace difflet::cli
