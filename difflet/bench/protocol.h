// What an engine says, line by line, and what the harness makes of a whole session.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/base/json.h"

namespace difflet::bench {

enum class EventKind : std::uint8_t {
  Hello,
  Begin,
  End,
  Step,
  Ready,
  Output,
  Profile,
  Saved,
  Error
};

struct Event {
  EventKind kind = EventKind::Ready;
  std::string name;        // Begin, End, Output; Error: "unsupported" or "failed"
  std::int64_t index = 0;  // Step
  double cpu_s = 0;        // Begin, End, Step: of the engine's process tree so far
  Json data;               // Hello, Output, Profile: the whole object
  std::string message;     // Error
};

inline constexpr std::size_t kMaxLine = std::size_t{1} << 20;

// One line of an engine's standard output. Throws DataLoss saying what is wrong with it.
Event parse_event(std::string_view line);
// Command lines, with the line's end.
std::string command_line(std::string_view what);
std::string save_line(const std::string& path);

// Seconds of wall clock (the harness's) and of CPU time (the engine's).
struct Duration {
  double wall_s = 0, cpu_s = 0;
};

struct StageTime {
  std::string name;
  Duration time;
};

// One request.
struct RunRecord {
  Duration total;
  std::vector<StageTime> stages;  // inner pairs, in the order of their ends
  std::vector<Duration> steps;    // since the step before; the first since the stage began
  double until_output_s = 0;      // wall, since the process started
  Json outputs = Json::array();   // output events
  Json profile;                   // null: none
};

// The order of events, checked, and what they say.
class Session {
 public:
  // `seconds`: on the harness's clock since the process started, not decreasing. Throws DataLoss for an
  // event that cannot come now; Unsupported or Unavailable with the engine's message for an error.
  void take(const Event& event, double seconds);

  bool ready() const noexcept { return ready_; }
  double ready_s() const noexcept { return ready_s_; }
  double cpu_s() const noexcept { return last_cpu_s_; }  // at the last event
  const Json& hello() const noexcept { return hello_; }
  const std::vector<StageTime>& loading() const noexcept { return loading_; }  // compile, load
  const std::vector<RunRecord>& runs() const noexcept { return runs_; }        // that have ended
  std::size_t saved() const noexcept { return saved_; }

 private:
  struct Open {
    std::string name;
    double seconds = 0, cpu_s = 0;
  };
  void begin(const Event& event, double seconds);
  void end(const Event& event, double seconds);
  void step(const Event& event, double seconds);
  void note_cpu(double cpu_s);

  Json hello_;
  bool ready_ = false;
  double ready_s_ = 0, last_s_ = 0, last_cpu_s_ = 0;
  std::vector<Open> open_;
  std::vector<StageTime> loading_;
  std::optional<RunRecord> run_;
  Duration step_start_;
  std::vector<RunRecord> runs_;
  std::size_t saved_ = 0;
};

}  // namespace difflet::bench
