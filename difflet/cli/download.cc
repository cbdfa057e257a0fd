// difflet download: a model from the hub into its cache.
#include "difflet/io/hub/download.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/cli/command.h"
#include "difflet/cli/download.h"
#include "difflet/cli/hub_options.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/progress.h"

namespace difflet::cli {
namespace {

using io::hub::DownloadEvents;
using io::hub::DownloadPlan;
using io::hub::Progress;
using SteadyClock = std::chrono::steady_clock;

std::string rate_text(const Progress& progress) {
  if (progress.bytes_per_s <= 0) {
    return "";
  }
  return fmt::format(", {}/s, {} left",
                     readable_bytes(static_cast<std::size_t>(progress.bytes_per_s)),
                     readable_seconds(progress.seconds_left()));
}

std::string amount_text(const Progress& progress) {
  return fmt::format("{} of {}, {} of {} files{}", readable_bytes(progress.bytes),
                     readable_bytes(progress.total), progress.files, progress.total_files,
                     rate_text(progress));
}

// How a download is shown; this one shows nothing.
class Display {
 public:
  Display() = default;
  virtual ~Display() = default;
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  virtual void plan(const DownloadPlan&) {}
  virtual void progress(const Progress&) {}
  virtual void note(const std::string&) {}
};

void print_plan(const DownloadPlan& plan) {
  if (!plan.note.empty()) {
    print_message(fmt::format("{}: using what is in the cache ({})\n", plan.id.text, plan.note));
    return;
  }
  print_message(fmt::format("{} at {}: {} files, {}; {} to download\n", plan.id.text,
                            plan.commit.substr(0, 12), plan.files.size(),
                            readable_bytes(plan.bytes()), readable_bytes(plan.missing_bytes())));
}

// A line every few seconds.
class Lines : public Display {
 public:
  void plan(const DownloadPlan& plan) override { print_plan(plan); }
  void progress(const Progress& progress) override {
    constexpr auto kPause = std::chrono::seconds(5);
    const auto now = SteadyClock::now();
    if (now - last_ >= kPause || progress.files == progress.total_files) {
      last_ = now;
      print_message(amount_text(progress) + "\n");
    }
  }
  void note(const std::string& text) override { print_message(text + "\n"); }

 private:
  SteadyClock::time_point last_ = SteadyClock::now();
};

class Bar : public Display {
 public:
  ~Bar() override { clear(); }
  void plan(const DownloadPlan& plan) override { print_plan(plan); }
  void progress(const Progress& progress) override {
    constexpr std::size_t kCells = 24;
    const double part = progress.total == 0 ? 1
                                            : static_cast<double>(progress.bytes) /
                                                  static_cast<double>(progress.total);
    const auto full = std::min(kCells, static_cast<std::size_t>(part * double{kCells}));
    print_message(fmt::format("\r\033[K[{}{}] {}", std::string(full, '='),
                              std::string(kCells - full, ' '), amount_text(progress)));
    shown_ = true;
  }
  void note(const std::string& text) override {
    clear();
    print_message(text + "\n");
  }

 private:
  void clear() {
    if (shown_) {
      print_message("\r\033[K");
    }
    shown_ = false;
  }
  bool shown_ = false;
};

class Events : public Display {
 public:
  void plan(const DownloadPlan& plan) override {
    Json files = Json::array();
    for (const io::hub::PlannedFile& file : plan.files) {
      files.push_back({{"path", file.path}, {"bytes", file.size}, {"have", file.have}});
    }
    print_event({{"event", "plan"},
                 {"id", plan.id.text},
                 {"revision", plan.revision},
                 {"commit", plan.commit},
                 {"bytes", plan.bytes()},
                 {"missing_bytes", plan.missing_bytes()},
                 {"note", plan.note},
                 {"files", std::move(files)}});
  }
  void progress(const Progress& progress) override {
    constexpr auto kPause = std::chrono::seconds(1);
    const auto now = SteadyClock::now();
    if (now - last_ >= kPause || progress.files == progress.total_files) {
      last_ = now;
      print_event({{"event", "progress"},
                   {"bytes", progress.bytes},
                   {"total", progress.total},
                   {"files", progress.files},
                   {"total_files", progress.total_files},
                   {"bytes_per_s", progress.bytes_per_s}});
    }
  }
  void note(const std::string& text) override { print_event({{"event", "note"}, {"text", text}}); }

 private:
  SteadyClock::time_point last_ = SteadyClock::now();
};

std::unique_ptr<Display> make_display(const OptionValues& options) {
  if (options.flag("json")) {
    return std::make_unique<Events>();
  }
  if (options.flag("quiet")) {
    return std::make_unique<Display>();
  }
  if (::isatty(STDERR_FILENO) != 0) {
    return std::make_unique<Bar>();
  }
  return std::make_unique<Lines>();
}

}  // namespace

std::filesystem::path download_model(const OptionValues& options, const io::hub::ModelName& model,
                                     DownloadMode mode) {
  const auto display = make_display(options);
  const io::hub::HubOptions hub = hub_options();
  const DownloadEvents events{.progress = [&](const Progress& p) { display->progress(p); },
                              .note = [&](const std::string& text) { display->note(text); },
                              .stop = [] { return stop_signal() != 0; }};
  const DownloadPlan plan =
      plan_download(hub, model.id, model.revision, wanted_files(options.text("variant")), events);
  display->plan(plan);
  if (mode == DownloadMode::PlanOnly) {
    return plan.complete ? plan.folder : std::filesystem::path();
  }
  return io::hub::run_download(hub, plan, events);
}

void run_download(const OptionValues& options) {
  check(options.texts("id").size() == 1, ErrorCode::InvalidArgument,
        "download takes one ID, not {}", options.texts("id").size());
  const std::filesystem::path folder = download_model(
      options,
      {.id = io::hub::RepoId::parse(options.text("id")), .revision = options.text("revision")},
      DownloadMode::Download);
  if (options.flag("json")) {
    print_event({{"event", "done"}, {"folder", folder.string()}});
  } else {
    print(folder.string() + "\n");
  }
}

}  // namespace difflet::cli
