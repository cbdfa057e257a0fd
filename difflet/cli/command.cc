#include "difflet/cli/command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "difflet/base/error.h"

namespace difflet::cli {

void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    check(written >= 0, errno == ENOSPC ? ErrorCode::ResourceExhausted : ErrorCode::Unavailable,
          "cannot write to standard output: {}", std::strerror(errno));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void print_message(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void reserve_standard_streams() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      // Takes the lowest free number, which is fd; the wrong direction, so that its use is an
      // error.
      (void)::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
}

LogLevel log_level(const OptionValues& options) {
  return options.flag("quiet") ? LogLevel::Off : LogLevel::Warning;
}

DType dtype_option(const OptionValues& options) {
  const auto dtype = parse_dtype(options.text("dtype"));
  require(dtype.has_value(), "a dtype that the option allows and nobody knows");
  return *dtype;
}

std::future<std::unique_ptr<ThreadPool>> start_threads(const OptionValues& options) {
  return std::async(std::launch::async, [count = static_cast<int>(options.integer("threads"))] {
    return std::make_unique<ThreadPool>(count);
  });
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

Clock Clock::now() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {.wall_s = std::chrono::duration<double>(wall).count(),
          .cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

}  // namespace difflet::cli
