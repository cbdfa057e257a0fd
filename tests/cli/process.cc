#include "tests/cli/process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

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

// Makes `stream` the opened file.
void redirect(const fs::path& path, int flags, int stream) {
  const int file = ::open(path.c_str(), flags, 0600);
  if (file >= 0) {
    ::dup2(file, stream);
  }
}

// In the child: streams, limit, program. Does not return.
[[noreturn]] void become(char* const* argv, const fs::path& folder, const ProcessOptions& options) {
  const auto given_or = [](const std::string& given, const fs::path& own) {
    return given.empty() ? own : fs::path(given);
  };
  constexpr int kWrite = O_WRONLY | O_CREAT;
  redirect(folder / "in", O_RDONLY, STDIN_FILENO);
  redirect(given_or(options.standard_output, folder / "out"), kWrite, STDOUT_FILENO);
  redirect(given_or(options.standard_error, folder / "err"), kWrite, STDERR_FILENO);
  for (const int stream : options.closed_streams) {
    ::close(stream);
  }
  if (options.file_limit > 0) {
    const rlimit limit{options.file_limit, options.file_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (!options.small_disk.empty() &&
      (::unshare(CLONE_NEWNS) != 0 ||
       ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
       ::mount("tmpfs", options.small_disk.c_str(), "tmpfs", 0, "size=64k") != 0)) {
    std::_Exit(kNoMount);
  }
  if (options.user != 0 && (::setgid(options.user) != 0 || ::setuid(options.user) != 0)) {
    std::_Exit(127);
  }
  // Not the user's own store of artifacts.
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const char* const path = std::getenv("PATH");
  ::setenv("PATH",
           (fs::path(DIFFLET_BINARY).parent_path().string() + ':' + (path != nullptr ? path : ""))
               .c_str(),
           1);
  ::execv(argv[0], argv);
  std::_Exit(127);
}

}  // namespace

Process::Process(std::vector<std::string> words, ProcessOptions options)
    : options_(std::move(options)) {
  std::ofstream(folder_ / "in", std::ios::binary) << options_.input;
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  id_ = ::fork();
  if (id_ == 0) {
    become(argv.data(), folder_.path(), options_);
  }
  EXPECT_GT(id_, 0) << "fork failed";
  signalled_ = Clock::now();
}

Process::~Process() {
  if (id_ > 0) {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
}

bool Process::running() const {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

void Process::wait_for(const std::string& text) const {
  while (running() && read_all(folder_ / "err").find(text) == std::string::npos) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void Process::signal(int number) {
  signalled_ = Clock::now();
  ::kill(id_, number);
}

ProcessResult Process::wait() {
  int status = 0;
  ::waitpid(std::exchange(id_, -1), &status, 0);
  ProcessResult result;
  result.seconds_after_signal = std::chrono::duration<double>(Clock::now() - signalled_).count();
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  result.out = read_all(folder_ / "out");
  result.err = read_all(folder_ / "err");
  return result;
}

std::vector<std::string> difflet_words(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{DIFFLET_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

ProcessResult run_difflet(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  Process process(difflet_words(arguments), options);
  if (options.stop_signal != 0) {
    process.wait_for(options.stop_after);
    process.signal(options.stop_signal);
  }
  return process.wait();
}

ProcessResult run_shell(const std::string& line) {
  return Process({"/bin/sh", "-c", line}, {}).wait();
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
