#include "difflet/bench/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::bench {
namespace {

namespace fs = std::filesystem;

void close_end(int& end) noexcept {
  if (end >= 0) {
    ::close(end);
    end = -1;
  }
}

// Closes what nobody has taken.
struct Pipe {
  int read = -1, write = -1;

  Pipe() {
    std::array<int, 2> ends{};
    check(::pipe2(ends.data(), O_CLOEXEC) == 0, ErrorCode::ResourceExhausted,
          "cannot make a pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_end(read);
    close_end(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

// Its own process group, so that what it starts ends with it; default signals; streams as given.
int spawn(pid_t& id, std::vector<char*>& argv, int input, int output, const fs::path& log,
          char** environment) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                   0644);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGXFSZ}) {
    sigaddset(&defaults, signal);
  }
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawnp(&id, argv[0], &files, &attributes, argv.data(), environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

std::size_t own_peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

EngineProcess::EngineProcess(const std::vector<std::string>& words, fs::path log,
                             ProcessLimits limits)
    : log_(std::move(log)), limits_(std::move(limits)) {
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  argv.reserve(copy.size() + 1);
  for (std::string& word : copy) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  Pipe in;
  Pipe out;
  own_peak_ = own_peak();
  start_ = std::chrono::steady_clock::now();
  const int error = spawn(id_, argv, in.read, out.write, log_, limits_.environment);
  if (error != 0) {
    id_ = -1;
    fail(ErrorCode::Unsupported, "cannot run '{}': {}", words.front(), std::strerror(error));
  }
  input_ = std::exchange(in.write, -1);
  output_ = std::exchange(out.read, -1);
}

EngineProcess::~EngineProcess() {
  close_end(input_);
  close_end(output_);
  if (id_ > 0) {
    ::kill(-id_, SIGKILL);
    reap(0);
  }
}

double EngineProcess::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void EngineProcess::reap(int options) {
  rusage usage{};
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::wait4(id_, &status, options, &usage);
  } while (ended < 0 && errno == EINTR);
  if (ended != 0) {
    ::kill(-id_, SIGKILL);  // what it left behind
    id_ = -1;
    status_ = status;
    // A process begins with the peak of the one that started it: below that the number says nothing.
    const std::size_t most = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
    peak_ = std::max(peak_, most > own_peak_ + own_peak_ / 8 ? most : 0);
  }
}

std::size_t EngineProcess::high_water() const {
  if (id_ < 0) {
    return 0;
  }
  std::ifstream file(fmt::format("/proc/{}/status", id_));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) {
      std::size_t kib = 0;
      const std::size_t digit = std::min(line.find_first_of("0123456789"), line.size());
      std::from_chars(line.data() + digit, line.data() + line.size(), kib);
      return kib * 1024;
    }
  }
  return 0;
}

std::string EngineProcess::last_words() const {
  std::ifstream file(log_);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      last = line.substr(0, 300);
    }
  }
  return last.empty() ? "" : fmt::format("; it said: {}", last);
}

void EngineProcess::fail_ended() {
  // The stream may be closed a moment before the process ends, or by a process that goes on.
  for (int i = 0; id_ > 0 && i < 100; ++i) {
    reap(WNOHANG);
    if (id_ > 0) {
      ::usleep(10'000);
    }
  }
  if (id_ > 0) {
    fail(ErrorCode::Unavailable, "the engine closed its standard output{}", last_words());
  }
  const std::string how = WIFSIGNALED(status_)
                              ? fmt::format("signal {}", WTERMSIG(status_))
                              : fmt::format("exit status {}", WEXITSTATUS(status_));
  fail(ErrorCode::Unavailable, "the engine ended with {}{}", how, last_words());
}

void EngineProcess::send(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(input_, line.data(), line.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return;  // it has ended: the next wait says how
    }
    line.remove_prefix(static_cast<std::size_t>(written));
  }
}

void EngineProcess::read_some() {
  std::array<char, 65536> buffer{};
  const ssize_t count = ::read(output_, buffer.data(), buffer.size());
  const double now = seconds();
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) {
    return;
  }
  if (count <= 0) {
    closed_ = true;
    return;
  }
  pending_.append(buffer.data(), static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    Event event = parse_event(std::string_view(pending_).substr(begin, end - begin));
    if (event.clock_s) {
      *event.clock_s -= std::chrono::duration<double>(start_.time_since_epoch()).count();
    }
    session_.take(event, now);
  }
  pending_.erase(0, begin);
  check(pending_.size() <= kMaxLine, ErrorCode::DataLoss, "a line of more than {} bytes", kMaxLine);
}

void EngineProcess::wait(const std::function<bool()>& done, const char* what) {
  double last_line = seconds();
  while (!done()) {
    if (limits_.check_stop) {
      limits_.check_stop();
    }
    if (closed_) {
      fail_ended();
    }
    pollfd stream{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&stream, 1, 100);
    if (ready > 0) {
      read_some();
      last_line = seconds();
    } else {
      check(seconds() - last_line < limits_.silence_s, ErrorCode::Unavailable,
            "no line for {:.0f} s while waiting for {}{}", limits_.silence_s, what, last_words());
    }
  }
}

void EngineProcess::wait_ready() {
  wait([this] { return session_.ready(); }, "'ready'");
}

const RunRecord& EngineProcess::run() {
  const std::size_t before = session_.runs().size();
  send(command_line("run"));
  wait([this, before] { return session_.runs().size() > before; }, "the end of a run");
  peak_ = std::max(peak_, high_water());
  return session_.runs().back();
}

void EngineProcess::save(const fs::path& path) {
  const std::size_t before = session_.saved();
  send(save_line(path.string()));
  wait([this, before] { return session_.saved() > before; }, "'saved'");
}

std::size_t EngineProcess::finish() {
  peak_ = std::max(peak_, high_water());
  send(command_line("exit"));
  close_end(input_);
  constexpr double kPatience = 30;  // seconds to tidy up
  const double asked = seconds();
  while (id_ > 0 && seconds() - asked < kPatience) {
    reap(WNOHANG);
    if (id_ > 0) {
      ::usleep(2000);
    }
  }
  if (id_ > 0) {
    ::kill(-id_, SIGKILL);
    reap(0);
  }
  return peak_;
}

}  // namespace difflet::bench
