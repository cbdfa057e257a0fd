#include "difflet/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace difflet {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warning:
      return spdlog::level::warn;
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Off:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

struct Log::Impl {
  spdlog::logger logger{"difflet", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()};
};

Log::Log(LogLevel level) : impl_(std::make_unique<Impl>()) {
  impl_->logger.set_pattern("%H:%M:%S.%e %^%l%$: %v");
  impl_->logger.set_level(spdlog_level(level));
  impl_->logger.flush_on(spdlog::level::trace);
  // A stderr that does not take the line must not end a run.
  impl_->logger.set_error_handler([](const std::string&) {});
}

Log::~Log() = default;

void Log::write(LogLevel level, const std::string& line) {
  if (level != LogLevel::Off) {
    impl_->logger.log(spdlog_level(level), std::string_view(line));
  }
}

}  // namespace difflet
