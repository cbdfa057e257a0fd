// How much memory this process may take.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/cli/command.h"

namespace difflet::cli {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

// Empty when the system does not have it.
std::string read_small_file(const std::filesystem::path& path) {
  try {
    return read_text_file(path, std::size_t{1} << 20U);
  } catch (const Error&) {
    return "";
  }
}

std::optional<std::size_t> number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// What is left below the limits of the cgroup (version 2) and of those above it.
std::size_t left_in_cgroups() {
  const std::string groups = read_small_file("/proc/self/cgroup");
  const std::size_t at = groups.find("0::/");
  if (at == std::string::npos) {
    return kUnlimited;
  }
  const std::filesystem::path root = "/sys/fs/cgroup";
  const std::string name = groups.substr(at + 4, groups.find('\n', at) - at - 4);
  std::size_t left = kUnlimited;
  for (std::filesystem::path folder = root / name;; folder = folder.parent_path()) {
    const auto limit = number_after(read_small_file(folder / "memory.max"), "");
    const auto used = number_after(read_small_file(folder / "memory.current"), "");
    if (limit && used) {
      // Pages of files count as used but can be dropped.
      const auto files = number_after(read_small_file(folder / "memory.stat"), "\nfile ");
      const std::size_t taken = *used - std::min(*used, files.value_or(0));
      left = std::min(left, *limit - std::min(*limit, taken));
    }
    if (folder == root || !folder.has_relative_path()) {
      return left;
    }
  }
}

}  // namespace

std::size_t available_memory() {
  const auto free_kib = number_after(read_small_file("/proc/meminfo"), "MemAvailable:");
  const std::size_t machine = free_kib ? *free_kib * 1024 : kUnlimited;
  return std::min(machine, left_in_cgroups());
}

}  // namespace difflet::cli
