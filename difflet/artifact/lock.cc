#include "difflet/artifact/lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <set>
#include <thread>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

using std::chrono::steady_clock;

constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr auto kSay = std::chrono::seconds(1);
constexpr std::size_t kMaxHolderBytes = 4096;
constexpr std::size_t kStagingDigits = 16;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// True while the path still names the open file; a cleaner may have removed it in between.
bool still_there(const Folder& folder, const std::string& name, const Fd& fd) {
  const std::optional<FileStatus> at = folder.status(name);
  const FileStatus open = status_of(fd);
  return at && at->kind == FileKind::Regular && at->device == open.device &&
         at->inode == open.inode;
}

// What the lock file says, made readable; whatever it holds instead of that is not repeated.
std::string describe_holder(const Fd& fd, const std::filesystem::path& path) {
  try {
    const Json json = parse_json(read_all(fd, path, kMaxHolderBytes), path.string());
    return fmt::format("process {} on {}, {}, since {}", json.at("pid").get<std::int64_t>(),
                       json.at("host").get<std::string>(), json.at("what").get<std::string>(),
                       json.at("since").get<std::string>());
  } catch (const Error&) {
    return "another process";
  } catch (const Json::exception&) {
    return "another process";
  }
}

void write_holder(const Fd& fd, const std::filesystem::path& path, const std::string& what) {
  const Json holder{
      {"pid", ::getpid()}, {"host", host_name()}, {"what", what}, {"since", utc_time()}};
  const std::string text = holder.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (::ftruncate(fd.get(), 0) == 0) {
    write_at(fd, path, 0, std::as_bytes(std::span(std::string_view(text))));
  }
}

}  // namespace

std::string utc_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

std::optional<KeyLock> KeyLock::try_acquire(const Folder& locks, const std::string& name,
                                            const std::string& what, std::string* holder) {
  const std::string file = name + std::string(kLockSuffix);
  while (true) {
    Fd fd = locks.open_or_create(file);
    if (!try_lock(fd, LockKind::Exclusive)) {
      if (holder != nullptr) {
        *holder = describe_holder(fd, locks.path() / file);
      }
      return std::nullopt;
    }
    if (still_there(locks, file, fd)) {
      write_holder(fd, locks.path() / file, what);
      return KeyLock(std::move(fd));
    }
  }
}

KeyLock KeyLock::acquire(const Folder& locks, const std::string& name, const std::string& what,
                         const std::function<void(const std::string&)>& waiting) {
  steady_clock::time_point next = steady_clock::now();
  std::string holder;
  while (true) {
    if (std::optional<KeyLock> lock = try_acquire(locks, name, what, &holder)) {
      return *std::move(lock);
    }
    if (waiting && steady_clock::now() >= next) {
      waiting(holder);
      next = steady_clock::now() + kSay;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

Staging Staging::make(const Folder& root) {
  constexpr int kTries = 100;
  for (int i = 1;; ++i) {
    try {
      Folder parent = root.make("staging");
      (void)sweep_staging(parent, SweepMode::Remove);
      std::string name = random_name();
      const std::string lock_name = name + std::string(kLockSuffix);
      Fd lock = parent.create(lock_name);
      // A sweeper may take the file for a dead writer's before it is locked; then another name.
      if (lock && try_lock(lock, LockKind::Exclusive) && still_there(parent, lock_name, lock)) {
        Folder folder = parent.make(name);
        return {std::move(parent), std::move(name), std::move(lock), std::move(folder)};
      }
    } catch (const Error& e) {
      // A cleaner takes the folder away while it is empty.
      if (e.code() != ErrorCode::NotFound || i >= kTries) {
        throw;
      }
    }
  }
}

Staging::Staging(Staging&& o) noexcept
    : parent_(std::exchange(o.parent_, std::nullopt)),
      name_(std::move(o.name_)),
      lock_(std::move(o.lock_)),
      folder_(std::exchange(o.folder_, std::nullopt)) {}

Staging& Staging::operator=(Staging&& o) noexcept {
  std::swap(parent_, o.parent_);
  std::swap(name_, o.name_);
  std::swap(lock_, o.lock_);
  std::swap(folder_, o.folder_);
  return *this;
}

Staging::~Staging() {
  if (parent_) {
    try {
      parent_->remove(name_);
      parent_->remove(name_ + std::string(kLockSuffix));
    } catch (const std::exception&) {
      return;  // the next writer removes it
    }
  }
}

std::vector<StagingLeft> sweep_staging(const Folder& staging, SweepMode mode) {
  std::vector<StagingLeft> left;
  std::set<std::string> names;
  for (const std::string& name : staging.names()) {
    const std::string stem =
        name.ends_with(kLockSuffix) ? name.substr(0, name.size() - kLockSuffix.size()) : name;
    if (is_hex(stem, kStagingDigits)) {
      names.insert(stem);
    }
  }
  for (const std::string& name : names) {
    const std::string lock_name = name + std::string(kLockSuffix);
    StagingLeft entry{.name = name};
    // The lock file is made before the folder and removed after it: without one the owner is dead.
    Fd lock;
    if (staging.status(lock_name)) {
      try {
        lock = staging.file(lock_name);
      } catch (const Error&) {
        continue;  // removed meanwhile
      }
      entry.alive = !try_lock(lock, LockKind::Exclusive);
      if (!entry.alive && !still_there(staging, lock_name, lock)) {
        continue;
      }
    }
    const auto info = staging.status(name);
    if (info && info->kind == FileKind::Folder && mode == SweepMode::List) {
      const auto folder = staging.child(name);
      entry.bytes = folder ? folder->bytes() : 0;
    }
    if (!entry.alive && mode == SweepMode::Remove) {
      try {
        staging.remove(name);
        staging.remove(lock_name);
      } catch (const Error&) {
        continue;  // another user's; it takes space, but is in nobody's way
      }
    }
    left.push_back(std::move(entry));
  }
  return left;
}

}  // namespace difflet::artifact
