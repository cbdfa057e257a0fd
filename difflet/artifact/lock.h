// One writer a key at a time, across processes; the kernel frees the lock of a process that dies.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "difflet/artifact/folder.h"

namespace difflet::artifact {

// An exclusive flock on locks/<name>.lock, which says who holds it.
class KeyLock {
 public:
  // Waits. `waiting` is called with the holder when it has to, and about every second after that.
  static KeyLock acquire(const Folder& locks, const std::string& name, const std::string& what,
                         const std::function<void(const std::string&)>& waiting);
  // Nothing when somebody holds it; then `holder` says who.
  static std::optional<KeyLock> try_acquire(const Folder& locks, const std::string& name,
                                            const std::string& what, std::string* holder = nullptr);

 private:
  explicit KeyLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// Now as "2026-01-31T12:00:00Z".
std::string utc_time();

inline constexpr std::string_view kLockSuffix = ".lock";

// A new folder staging/<name>/ with a locked file beside it, staging/<name>.lock, as long as this
// object lives; removed with all that is still in it.
class Staging {
 public:
  // Makes the folder; first removes those whose owner is dead.
  static Staging make(const Folder& root);
  Staging(Staging&&) noexcept;
  Staging& operator=(Staging&&) noexcept;
  ~Staging();

  const Folder& folder() const noexcept { return *folder_; }

 private:
  Staging(Folder parent, std::string name, Fd lock, Folder folder)
      : parent_(std::move(parent)),
        name_(std::move(name)),
        lock_(std::move(lock)),
        folder_(std::move(folder)) {}

  std::optional<Folder> parent_;
  std::string name_;
  Fd lock_;
  std::optional<Folder> folder_;
};

struct StagingLeft {
  std::string name;  // inside staging/
  std::uint64_t bytes = 0;
  bool alive = false;  // its owner is; it stays
};
enum class SweepMode : std::uint8_t { List, Remove };
// What writers left in staging/; anything that is not theirs is not listed.
std::vector<StagingLeft> sweep_staging(const Folder& staging, SweepMode mode);

}  // namespace difflet::artifact
