#include "difflet/cli/interrupt.h"

#include <signal.h>

#include <csignal>

#include "difflet/base/error.h"

namespace difflet::cli {
namespace {

volatile std::sig_atomic_t stop_requested = 0;  // the only thing that a handler may touch

void on_signal(int signal) { stop_requested = signal; }

}  // namespace

void handle_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // A read of standard input returns, so that it can stop; a second signal ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  ::sigaction(SIGXFSZ, &action, nullptr);
}

int stop_signal() noexcept { return stop_requested; }

void check_stop() {
  const int signal = stop_signal();
  if (signal != 0) {
    fail(ErrorCode::Cancelled, "stopped by {}", signal == SIGINT ? "Ctrl-C" : "SIGTERM");
  }
}

}  // namespace difflet::cli
