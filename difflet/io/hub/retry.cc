#include "difflet/io/hub/retry.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "difflet/base/error.h"

namespace difflet::io::hub {
namespace {

std::int64_t seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string reason(const HttpResponse& response) {
  if (!response.failure.empty()) {
    return response.failure;
  }
  return response.status == 429 ? "the server says 429, too many requests"
                                : fmt::format("the server says {}", response.status);
}

}  // namespace

bool is_transient(const HttpResponse& response) noexcept {
  switch (response.status) {
    case 408:
    case 425:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return true;
    default:
      return !response.failure.empty();
  }
}

void wait_seconds(double seconds, const StopRequest& stop) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> kPiece(0.05);
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(seconds));
  while (true) {
    check(!stop || !stop(), ErrorCode::Cancelled, "stopped");
    const std::chrono::duration<double> left = end - Clock::now();
    if (left.count() <= 0) {
      return;
    }
    std::this_thread::sleep_for(std::min(left, kPiece));
  }
}

double Retry::delay(const HttpResponse& response) const {
  const double own =
      std::min(options_.first_delay_s * std::exp2(failures_ - 1), options_.max_delay_s);
  return std::max(own, retry_after(response.headers, seconds_since_1970()).value_or(0));
}

void Retry::again(const std::string& what, const HttpResponse& response) {
  ++failures_;
  const double seconds = delay(response);
  check(failures_ < options_.attempts, ErrorCode::Unavailable,
        "{}: {} ({} attempts); what has arrived is kept, so try again later", what,
        reason(response), failures_);
  check(seconds <= std::max(options_.max_retry_after_s, options_.max_delay_s),
        ErrorCode::Unavailable, "{}: {} and asks to wait {:.0f} s; try again then", what,
        reason(response), seconds);
  if (note_) {
    note_(fmt::format("{}: {}; again in {:.3g} s", what, reason(response), seconds));
  }
  wait_seconds(seconds, stop_);
}

}  // namespace difflet::io::hub
