// An engine's process: its lines stamped with the harness's clock, its memory, its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/bench/protocol.h"

namespace difflet::bench {

struct ProcessLimits {
  double silence_s = 1800;           // without a line while one is expected: it hangs
  std::function<void()> check_stop;  // called about ten times a second; may throw
  char** environment = nullptr;      // of the engine, as execve takes it; null: empty
};

class EngineProcess {
 public:
  // words[0] is found on PATH. Standard error goes to `log`. Throws Unsupported when it cannot be run.
  EngineProcess(const std::vector<std::string>& words, std::filesystem::path log,
                ProcessLimits limits);
  ~EngineProcess();  // kills its process group
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  const Session& session() const noexcept { return session_; }

  // All throw as Session::take(), and Unavailable, with the last line of the log, for an engine that ends
  // or says nothing too long.
  void wait_ready();
  // One request; the record lives as long as this.
  const RunRecord& run();
  void save(const std::filesystem::path& path);
  // Asks it to end; gives the most memory that it or a process of it had, in bytes.
  std::size_t finish();

  // The most memory that the process itself had so far, in bytes; 0 when it has ended.
  std::size_t high_water() const;

 private:
  void send(std::string_view line);
  // Reads lines until `done`, which looks at the session.
  void wait(const std::function<bool()>& done, const char* what);
  void read_some();
  void reap(int options);
  [[noreturn]] void fail_ended();
  std::string last_words() const;
  double seconds() const;

  std::filesystem::path log_;
  ProcessLimits limits_;
  pid_t id_ = -1;
  int input_ = -1, output_ = -1;
  std::chrono::steady_clock::time_point start_;
  std::string pending_;
  bool closed_ = false;  // its standard output
  int status_ = 0;
  std::size_t peak_ = 0, own_peak_ = 0;
  Session session_;
};

}  // namespace difflet::bench
