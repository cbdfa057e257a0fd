#include "difflet/bench/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "difflet/backends/cpu/kernels/level.h"
#include "difflet/base/cores.h"
#include "difflet/base/version.h"

namespace difflet::bench {
namespace {

Json first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? Json(line) : Json();
}

// The value after "key :" of /proc/cpuinfo or /proc/meminfo.
Json field_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && line.starts_with(key)) {
      const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
      return begin == std::string::npos ? Json("") : Json(line.substr(begin));
    }
  }
  return {};
}

Json kernel() {
  utsname name{};
  if (::uname(&name) != 0) {
    return {};
  }
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

Json level() { return cpu::level_name(cpu::detect_level()); }

}  // namespace

Json machine_json() {
  const Cores cores;
  Json machine{{"cpu", field_of("/proc/cpuinfo", "model name")},
               {"flags", field_of("/proc/cpuinfo", "flags")},
               {"level", level()},
               {"cores", cores.count()},
               {"usable_cores", cores.usable()},
               {"memory", field_of("/proc/meminfo", "MemTotal")},
               {"kernel", kernel()},
               {"governor", first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")},
               {"huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")}};
  machine["difflet"] = kVersion;
  machine["compiler"] = __VERSION__;
#ifdef NDEBUG
  machine["assertions"] = false;
#else
  machine["assertions"] = true;
#endif
  return machine;
}

Json load_average() {
  std::ifstream file("/proc/loadavg");
  double one = 0;
  double five = 0;
  double fifteen = 0;
  return file >> one >> five >> fifteen ? Json::array({one, five, fifteen}) : Json();
}

std::optional<double> busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  double user = 0;
  double nice = 0;
  double system = 0;
  if (!(file >> word >> user >> nice >> system) || word != "cpu") {
    return std::nullopt;
  }
  double idle = 0;
  double wait = 0;
  double interrupts = 0;
  double soft = 0;
  double stolen = 0;
  file >> idle >> wait >> interrupts >> soft >> stolen;
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return (user + nice + system + interrupts + soft + stolen) / ticks;
}

int machine_cores() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

bool drop_page_cache() {
  ::sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "3\n" << std::flush;
  return file.good();
}

}  // namespace difflet::bench
