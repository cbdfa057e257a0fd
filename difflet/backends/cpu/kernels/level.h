// Instruction-set levels of the CPU kernels and the choice between them at run time.
#pragma once

#include <optional>
#include <string_view>

namespace difflet::cpu {

// Ordered: a chip that has a level has all below it.
enum class Level { Scalar, Avx2, Avx512, Avx512Vnni, Avx512Bf16, Amx };

// The highest level that this chip and operating system support (CPUID and XCR0). For amx the process
// asks the kernel for the use of tiles, which then holds for all its threads.
Level highest_level() noexcept;
// What runs where no level is asked for: highest_level(), but amx, which has never run on hardware, only
// by name.
Level detect_level() noexcept;

// "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx": the spelling of --cpu-level.
std::string_view level_name(Level level) noexcept;
std::optional<Level> parse_level(std::string_view name) noexcept;

}  // namespace difflet::cpu
