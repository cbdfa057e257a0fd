// The machine that numbers come from, and how busy it is.
#pragma once

#include <optional>

#include "difflet/base/json.h"

namespace difflet::bench {

// Processor, flags, cores, memory, kernel, frequency governor, huge pages, compiler and version; null
// where the system does not say.
Json machine_json();
Json load_average();  // [1 min, 5 min, 15 min], or null

// Seconds that all cores together were busy since the machine started; nothing where it is not told.
std::optional<double> busy_seconds();

int machine_cores();  // hardware threads of the machine

// Makes the system forget what it holds of files. False when it may not.
bool drop_page_cache();

}  // namespace difflet::bench
