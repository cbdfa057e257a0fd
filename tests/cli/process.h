// Runs the binary as a user does.
#pragma once

#include <string>
#include <vector>

#include "difflet/base/testing.h"

namespace difflet::testing {

struct ProcessOptions {
  std::string input;           // standard input
  std::size_t file_limit = 0;  // RLIMIT_FSIZE in bytes; 0: none
  int stop_signal = 0;         // sent as soon as standard error holds `stop_after`
  std::string stop_after;
  std::string standard_output;  // a file instead of the captured one
  std::string standard_error;
  std::vector<int> closed_streams;  // descriptors that the program finds closed
};

struct ProcessResult {
  int status = -1;  // exit status; -signal when a signal ended it
  std::string out, err;
  double seconds_after_signal = 0;
};

ProcessResult run_difflet(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});

// Fails, leaving one line on standard error that holds `part`.
void expect_refused(const std::vector<std::string>& arguments, int status, const std::string& part,
                    const ProcessOptions& options = {});

// A small random pipeline of tests/golden, or a copy of it that a test may damage.
std::filesystem::path golden_model(const std::string& name);
void copy_model(const std::string& name, const std::filesystem::path& to);

std::vector<std::string> files_in(const std::filesystem::path& folder);  // names, sorted

}  // namespace difflet::testing
