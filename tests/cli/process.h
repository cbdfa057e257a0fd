// Runs the binary as a user does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "difflet/base/testing.h"

namespace difflet::testing {

inline constexpr int kNoMount = 126;  // exit status

struct ProcessOptions {
  std::string input;           // standard input
  std::size_t file_limit = 0;  // RLIMIT_FSIZE in bytes; 0: none
  int stop_signal = 0;         // sent as soon as standard error holds `stop_after`
  std::string stop_after;
  std::string standard_output;  // a file instead of the captured one
  std::string standard_error;
  std::vector<int> closed_streams;  // descriptors that the program finds closed
  unsigned user = 0;                // runs as this one, if the test is root
  // A folder that is a file system of 64 KiB to the program; kNoMount where that cannot be had.
  std::filesystem::path small_disk;
};

struct ProcessResult {
  int status = -1;  // exit status; -signal when a signal ended it
  std::string out, err;
  double seconds_after_signal = 0;
};

// A program that runs. `words[0]` is its path; "difflet" is on its PATH.
class Process {
 public:
  Process(std::vector<std::string> words, ProcessOptions options);
  ~Process();  // kills it, unless wait() was called
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool running() const;
  // Until standard error holds `text`, or the program ends.
  void wait_for(const std::string& text) const;
  void signal(int number);
  ProcessResult wait();

 private:
  TemporaryFolder folder_;  // of its streams
  ProcessOptions options_;
  pid_t id_ = -1;
  std::chrono::steady_clock::time_point signalled_;
};

std::vector<std::string> difflet_words(const std::vector<std::string>& arguments);
ProcessResult run_difflet(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});
// A line of a shell.
ProcessResult run_shell(const std::string& line);

// Fails, leaving one line on standard error that holds `part`.
void expect_refused(const std::vector<std::string>& arguments, int status, const std::string& part,
                    const ProcessOptions& options = {});

// A small random pipeline of tests/golden, or a copy of it that a test may damage.
std::filesystem::path golden_model(const std::string& name);
void copy_model(const std::string& name, const std::filesystem::path& to);

std::vector<std::string> files_in(const std::filesystem::path& folder);  // names, sorted

}  // namespace difflet::testing
