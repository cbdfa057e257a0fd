#include "difflet/cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <string_view>

#include "difflet/base/error.h"

namespace difflet::cli {
namespace {

volatile std::sig_atomic_t stop_requested = 0;  // the only thing that a handler may touch

void on_signal(int signal) { stop_requested = signal; }

// A page of a mapped file that is no longer there: another process made the file shorter, or the
// disk failed. The read cannot go on and nothing can be thrown from here; no output is half written
// then.
void on_bus_error(int signal, siginfo_t* info, void*) {
  constexpr std::string_view kMessage =
      "difflet: error: a file of the model was made shorter while it was read, or cannot be read\n";
  if (info->si_code == BUS_ADRERR) {
    (void)!::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(exit_status(ErrorCode::DataLoss));
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "Ctrl-C";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "SIGTERM";
  }
}

// nohup's choice stands.
void stop_at_hangup(const struct sigaction& action) {
  struct sigaction old{};
  ::sigaction(SIGHUP, nullptr, &old);
  if (old.sa_handler != SIG_IGN) {
    ::sigaction(SIGHUP, &action, nullptr);
  }
}

}  // namespace

void handle_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // A read of standard input returns, so that it can stop; a second signal ends the process.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  stop_at_hangup(action);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
  ::sigaction(SIGXFSZ, &action, nullptr);
  struct sigaction bus{};
  bus.sa_sigaction = on_bus_error;
  sigemptyset(&bus.sa_mask);
  bus.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &bus, nullptr);
}

int stop_signal() noexcept { return stop_requested; }

void check_stop() {
  const int signal = stop_signal();
  if (signal != 0) {
    fail(ErrorCode::Cancelled, "stopped by {}", name_of(signal));
  }
}

}  // namespace difflet::cli
