#include "tests/cli/process.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// In the child: streams, limit, program. Does not return.
[[noreturn]] void become(char* const* argv, const fs::path& folder, const ProcessOptions& options) {
  const std::string out =
      options.standard_output.empty() ? (folder / "out").string() : options.standard_output;
  ::dup2(::open((folder / "in").c_str(), O_RDONLY), STDIN_FILENO);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  const std::string err =
      options.standard_error.empty() ? (folder / "err").string() : options.standard_error;
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  for (const int stream : options.closed_streams) {
    ::close(stream);
  }
  if (options.file_limit > 0) {
    const rlimit limit{options.file_limit, options.file_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  // Not the user's own store of artifacts.
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  ::execv(argv[0], argv);
  std::_Exit(127);
}

// Waits for `text` in the file while the process runs.
void wait_for(const fs::path& file, const std::string& text, pid_t process) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(process);
  while (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
    if (read_all(file).find(text) != std::string::npos) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace

ProcessResult run_difflet(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  const TemporaryFolder folder;
  std::ofstream(folder / "in", std::ios::binary) << options.input;
  std::vector<std::string> words{DIFFLET_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);

  const pid_t process = ::fork();
  if (process == 0) {
    become(argv.data(), folder.path(), options);
  }
  EXPECT_GT(process, 0) << "fork failed";
  Clock::time_point signalled = Clock::now();
  if (options.stop_signal != 0) {
    wait_for(folder / "err", options.stop_after, process);
    signalled = Clock::now();
    ::kill(process, options.stop_signal);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  ProcessResult result;
  result.seconds_after_signal = std::chrono::duration<double>(Clock::now() - signalled).count();
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.out = read_all(folder / "out");
  result.err = read_all(folder / "err");
  return result;
}

void expect_refused(const std::vector<std::string>& arguments, int status, const std::string& part,
                    const ProcessOptions& options) {
  const ProcessResult result = run_difflet(arguments, options);
  std::string line;
  for (const std::string& word : arguments) {
    line += (word.size() > 100 ? word.substr(0, 100) + "..." : word) + ' ';
  }
  EXPECT_EQ(result.status, status) << line << '\n' << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << line << '\n'
                                                                       << result.err;
  EXPECT_TRUE(result.err.starts_with("difflet: error: ")) << line << '\n' << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << line << '\n' << result.err;
}

fs::path golden_model(const std::string& name) {
  return fs::path(DIFFLET_SOURCE_DIR) / "tests/golden/data/pipelines" / name / "model";
}

void copy_model(const std::string& name, const fs::path& to) {
  fs::copy(golden_model(name), to, fs::copy_options::recursive);
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace difflet::testing
