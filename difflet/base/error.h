// The one exception type and the checks that throw it.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace difflet {

// What went wrong, from the caller's point of view. base/error.cc maps each to an exit status.
enum class ErrorCode {
  InvalidArgument,    // an option or request value that can never work
  NotFound,           // a file, component or tensor that is not there
  Unsupported,        // understood, but this build or model does not do it
  ResourceExhausted,  // memory, disk or a stated limit
  DataLoss,           // a file that is damaged, truncated or inconsistent
  Unavailable,        // a device, server or file system that does not answer, or refuses
  Cancelled,          // stopped on request
  Internal,           // a bug of ours
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }
  // Puts "where: " before the message, so that it reads as a path while it unwinds.
  void add_context(std::string_view where) { message_ = fmt::format("{}: {}", where, message_); }

 private:
  ErrorCode code_;
  std::string message_;
};

std::string_view error_code_name(ErrorCode code) noexcept;  // "invalid_argument", ...
int exit_status(ErrorCode code) noexcept;                   // process exit status, never 0

[[noreturn]] void raise(ErrorCode code, std::string message);

template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  raise(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error{code} with the formatted message unless `ok`. For what input can cause.
template <typename... Args>
void check(bool ok, ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]] {
    raise(code, fmt::format(format, std::forward<Args>(args)...));
  }
}

// Throws Internal: for our own invariants, never reachable from input.
void require(bool ok, const char* what);

}  // namespace difflet
