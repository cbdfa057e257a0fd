// Compiling what options name, and how it is told.
#pragma once

#include <functional>
#include <string>

#include "difflet/base/json.h"
#include "difflet/base/options.h"
#include "difflet/compile/prepared.h"

namespace difflet::cli {

using ShowReport =
    std::function<void(const std::string& component, const compile::CompileReport& report)>;

// Compiles the components that the options of `difflet compile` name into the store, and shows each.
void compile_targets(const OptionValues& options, const ShowReport& show);

Json report_json(const std::string& name, const compile::CompileReport& report);
std::string report_text(const std::string& name, const compile::CompileReport& report);

}  // namespace difflet::cli
