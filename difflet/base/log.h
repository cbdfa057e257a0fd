// Log lines to stderr (spdlog). A Log is passed around, never global.
#pragma once

#include <memory>
#include <string>

#include <fmt/format.h>

namespace difflet {

enum class LogLevel { Debug, Info, Warning, Error, Off };

class Log {
 public:
  explicit Log(LogLevel level = LogLevel::Info);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  template <typename... Args>
  void info(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::Info, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void warn(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::Warning, fmt::format(f, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void debug(fmt::format_string<Args...> f, Args&&... args) {
    write(LogLevel::Debug, fmt::format(f, std::forward<Args>(args)...));
  }
  void write(LogLevel level, const std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet
