// One download of a file at a time, across processes and programs.
#pragma once

#include <filesystem>
#include <functional>

#include "difflet/io/hub/options.h"

namespace difflet::io::hub {

// An exclusive flock on the file, as the filelock package takes it; the file stays. Where the file
// system has no locks there is none: a blob is complete and checked before it gets its name anyway.
class BlobLock {
 public:
  // Waits; `waiting` is called once when it has to. Throws Cancelled when asked to stop, Unavailable
  // when the file cannot be made.
  BlobLock(const std::filesystem::path& file, const StopRequest& stop,
           const std::function<void()>& waiting);
  ~BlobLock();
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace difflet::io::hub
