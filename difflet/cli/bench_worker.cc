// difflet bench worker: an engine of the benchmark protocol on standard input and output.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>

#include "difflet/base/error.h"
#include "difflet/bench/worker.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"

namespace difflet::cli {
namespace {

class Lines {
 public:
  // Nothing at the end of standard input.
  std::optional<std::string> next() {
    while (true) {
      if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      std::array<char, 4096> buffer{};
      const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
      check_stop();
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        return std::nullopt;
      }
      pending_.append(buffer.data(), static_cast<std::size_t>(count));
      check(pending_.size() < (std::size_t{1} << 20U), ErrorCode::InvalidArgument,
            "a command of more than a megabyte");
    }
  }

 private:
  std::string pending_;
};

}  // namespace

void run_bench_worker(const OptionValues& options) {
  Lines lines;
  bench::run_worker(options.text("scenario"),
                    {.read_line = [&] { return lines.next(); },
                     .send = [](const Json& event) { print_event(event); },
                     .check_stop = [] { check_stop(); },
                     .available_memory = available_memory()});
}

}  // namespace difflet::cli
