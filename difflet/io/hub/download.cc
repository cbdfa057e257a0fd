// run_download(): workers that fetch files, and the thread that shows how far they are.
#include "difflet/io/hub/download.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/io/hub/blob.h"

namespace difflet::io::hub {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Bytes that the file system of `folder`, or of its nearest parent, has free for this user.
std::optional<std::uint64_t> free_bytes(fs::path folder) {
  struct statvfs info = {};
  while (::statvfs(folder.c_str(), &info) != 0) {
    if (!folder.has_parent_path() || folder == folder.parent_path()) {
      return std::nullopt;
    }
    folder = folder.parent_path();
  }
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

void check_disk(const HubOptions& options, const DownloadPlan& plan) {
  const std::uint64_t needed = plan.missing_bytes();
  const auto free = free_bytes(fs::absolute(options.cache));
  check(
      !free || needed <= *free, ErrorCode::ResourceExhausted,
      "'{}' needs {} more, but '{}' has {} free: free some space, or set HF_HUB_CACHE to a folder "
      "with more",
      plan.id.text, readable_bytes(needed), options.cache.string(),
      readable_bytes(free.value_or(0)));
}

// Bytes a second over the last seconds.
class RateMeter {
 public:
  double add(std::uint64_t bytes) {
    constexpr double kWindow = 5;  // seconds
    const auto now = Clock::now();
    samples_.push_back({now, bytes});
    while (samples_.size() > 2 && seconds(samples_.front().at, now) > kWindow) {
      samples_.pop_front();
    }
    const double time = seconds(samples_.front().at, now);
    const bool known = time > 0.2 && bytes >= samples_.front().bytes;
    return known ? static_cast<double>(bytes - samples_.front().bytes) / time : 0;
  }

 private:
  struct Sample {
    Clock::time_point at;
    std::uint64_t bytes;
  };
  static double seconds(Clock::time_point a, Clock::time_point b) {
    return std::chrono::duration<double>(b - a).count();
  }
  std::deque<Sample> samples_;
};

// Threads that take the files of a plan one after another.
class Workers {
 public:
  Workers(const HubOptions& options, const DownloadPlan& plan, const RepoCache& cache)
      : options_(options), plan_(plan), cache_(cache), etags_(plan.files.size()) {
    for (std::size_t i = 0; i < plan.files.size(); ++i) {
      order_.push_back(i);
    }
    // Large ones first: the small ones fill the gaps at the end.
    std::ranges::stable_sort(order_, std::greater<>(),
                             [&](std::size_t i) { return plan.files[i].size; });
    const std::size_t count =
        std::clamp<std::size_t>(options.connections, 1, std::max<std::size_t>(order_.size(), 1));
    running_ = count;
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  }
  ~Workers() {
    stop();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void stop() noexcept { stop_ = true; }
  // Waits a moment; false: all have ended.
  bool wait() {
    constexpr auto kMoment = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kMoment, [&] { return running_ == 0; });
    return running_ > 0;
  }
  std::vector<std::string> take_notes() {
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, {});
  }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::size_t files() const noexcept { return files_; }
  std::exception_ptr error() const { return error_; }  // after the end
  const std::string& etag(std::size_t file) const { return etags_[file]; }

 private:
  void work() noexcept {
    try {
      Client client(
          options_, [this] { return stop_.load(); },
          [this](const std::string& text) {
            const std::lock_guard lock(mutex_);
            notes_.push_back(text);
          });
      for (std::size_t next = next_++; next < order_.size() && !stop_; next = next_++) {
        fetch(client, order_[next]);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_ && !stop_) {
        error_ = std::current_exception();
      }
      stop_ = true;
    }
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  void fetch(Client& client, std::size_t index) {
    const PlannedFile& file = plan_.files[index];
    if (cache_.has_pointer(plan_.commit, file.path, file.size)) {
      bytes_ += file.size;
    } else {
      etags_[index] = fetch_blob(client, cache_,
                                 {.id = plan_.id,
                                  .commit = plan_.commit,
                                  .path = file.path,
                                  .etag = file.etag,
                                  .size = file.size},
                                 bytes_);
    }
    ++files_;
  }

  const HubOptions& options_;
  const DownloadPlan& plan_;
  const RepoCache& cache_;
  std::vector<std::size_t> order_;
  std::vector<std::string> etags_;  // of the blobs to be placed; empty: nothing to do
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::size_t> files_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t running_ = 0;
  std::vector<std::string> notes_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;  // the last: they use all of the others
};

void report(Workers& workers, const DownloadPlan& plan, RateMeter& rate,
            const DownloadEvents& events) {
  for (const std::string& note : workers.take_notes()) {
    if (events.note) {
      events.note(note);
    }
  }
  const Progress progress{.bytes = workers.bytes(),
                          .total = plan.bytes(),
                          .files = workers.files(),
                          .total_files = plan.files.size(),
                          .bytes_per_s = rate.add(workers.bytes())};
  if (events.progress) {
    events.progress(progress);
  }
}

// Without a write when all is there, so that a cache that may only be read will do.
void finish(const DownloadPlan& plan, const RepoCache& cache) {
  try {
    cache.write_ref(plan.revision, plan.commit);
  } catch (const Error&) {
    if (!plan.complete) {
      throw;
    }
  }
}

}  // namespace

double Progress::seconds_left() const noexcept {
  return bytes_per_s > 0 && total >= bytes ? static_cast<double>(total - bytes) / bytes_per_s : -1;
}

fs::path run_download(const HubOptions& options, const DownloadPlan& plan,
                      const DownloadEvents& events) {
  const RepoCache cache(options, plan.id);
  if (plan.complete) {
    if (plan.note.empty()) {
      finish(plan, cache);
    }
    return plan.folder;
  }
  check_disk(options, plan);
  cache.make_folders();
  Workers workers(options, plan, cache);
  RateMeter rate;
  bool stopped = false;
  while (workers.wait()) {
    report(workers, plan, rate, events);
    stopped = stopped || (events.stop && events.stop());
    if (stopped) {
      workers.stop();
    }
  }
  if (workers.error()) {
    std::rethrow_exception(workers.error());
  }
  check(!stopped, ErrorCode::Cancelled, "stopped; what has arrived is kept and resumed next time");
  report(workers, plan, rate, events);
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    if (!workers.etag(i).empty()) {
      cache.place(plan.commit, plan.files[i].path, workers.etag(i));
    }
  }
  finish(plan, cache);
  return plan.folder;
}

}  // namespace difflet::io::hub
