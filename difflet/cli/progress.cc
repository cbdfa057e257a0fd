#include "difflet/cli/progress.h"

#include <unistd.h>

#include <string>

#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"

namespace difflet::cli {
namespace {

using pipelines::Observer;

class Quiet : public Observer {
 public:
  void check_stop() override { cli::check_stop(); }
};

std::string duration(double seconds) {
  if (seconds < 60) {
    return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 0);
  }
  const auto whole = static_cast<long long>(seconds);
  return whole < 3600 ? fmt::format("{} min {:02} s", whole / 60, whole % 60)
                      : fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// Mean step and what is left at that speed; the first step counts as the others do.
class StepClock {
 public:
  void add(double seconds) {
    total_ += seconds;
    ++count_;
  }
  std::string left(std::int64_t steps) const {
    return duration(total_ / static_cast<double>(count_) * static_cast<double>(steps));
  }

 private:
  double total_ = 0;
  std::int64_t count_ = 0;
};

class Lines : public Quiet {
 public:
  void stage_end(std::string_view name, double seconds) override {
    print_message(fmt::format("{}: {}\n", name, duration(seconds)));
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    clock_.add(seconds);
    print_message(fmt::format("step {}/{}: {}, {} left\n", done, total, duration(seconds),
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
    print_message(fmt::format("{}: {}\n", name, duration(seconds)));
  }
  void step(std::int64_t done, std::int64_t total, double seconds) override {
    constexpr std::int64_t kCells = 30;
    clock_.add(seconds);
    const auto full = static_cast<std::size_t>(done * kCells / total);
    show(fmt::format("[{}{}] step {}/{}  {}/step  {} left", std::string(full, '='),
                     std::string(kCells - full, ' '), done, total, duration(seconds),
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
