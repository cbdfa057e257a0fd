#include "difflet/cli/progress.h"

#include <unistd.h>

#include <string>

#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"

namespace difflet::cli {
namespace {

using pipelines::Observer;

class Quiet : public Observer {
 public:
  void check_stop() override { cli::check_stop(); }
};

// Mean step and what is left at that speed; the first step counts as the others do.
class StepClock {
 public:
  void add(double seconds) {
    total_ += seconds;
    ++count_;
  }
  std::string left(std::int64_t steps) const {
    return readable_seconds(total_ / static_cast<double>(count_) * static_cast<double>(steps));
  }

 private:
  double total_ = 0;
  std::int64_t count_ = 0;
};

class Lines : public Quiet {
 public:
  void stage_end(std::string_view name, double seconds) override {
    print_message(fmt::format("{}: {}\n", name, readable_seconds(seconds)));
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    clock_.add(seconds);
    print_message(fmt::format("step {}/{}: {}, {} left\n", done, total, readable_seconds(seconds),
                              clock_.left(total - done)));
  }

 private:
  StepClock clock_;
};

class Bar : public Quiet {
 public:
  ~Bar() override { clear(); }
  void stage_begin(std::string_view name) override { show(fmt::format("{} ...", name)); }
  void stage_end(std::string_view name, double seconds) override {
    clear();
    print_message(fmt::format("{}: {}\n", name, readable_seconds(seconds)));
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    constexpr std::int64_t kCells = 30;
    clock_.add(seconds);
    const auto full = static_cast<std::size_t>(done * kCells / total);
    show(fmt::format("[{}{}] step {}/{}  {}/step  {} left", std::string(full, '='),
                     std::string(kCells - full, ' '), done, total, readable_seconds(seconds),
                     clock_.left(total - done)));
  }

 private:
  void show(const std::string& text) {
    print_message(fmt::format("\r\033[K{}", text));
    shown_ = true;
  }
  void clear() {
    if (shown_) {
      print_message("\r\033[K");
    }
    shown_ = false;
  }

  StepClock clock_;
  bool shown_ = false;
};

class Events : public Quiet {
 public:
  void stage_end(std::string_view name, double seconds) override {
    print_event({{"event", "stage"}, {"name", name}, {"seconds", seconds}});
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    print_event({{"event", "step"}, {"step", done}, {"steps", total}, {"seconds", seconds}});
  }
};

}  // namespace

void print_event(const Json& event) {
  print(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::unique_ptr<Observer> make_progress(const OptionValues& options) {
  if (options.flag("json")) {
    return std::make_unique<Events>();
  }
  if (options.flag("quiet")) {
    return std::make_unique<Quiet>();
  }
  if (::isatty(STDERR_FILENO) != 0) {
    return std::make_unique<Bar>();
  }
  return std::make_unique<Lines>();
}

}  // namespace difflet::cli
