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
  // Begin, End, Step: when it was so, by the engine's CLOCK_MONOTONIC. Nothing: it does not say.
  std::optional<double> clock_s;
  Json data;            // Hello, Output, Profile: the whole object; Ready: "memory", or null
  std::string message;  // Error
};

inline constexpr std::size_t kMaxLine = std::size_t{1} << 20;

// One line of an engine's standard output. Throws DataLoss saying what is wrong with it.
Event parse_event(std::string_view line);
// Command lines, with the line's end.
std::string command_line(std::string_view what);
std::string save_line(const std::string& path);

// Seconds of wall clock and of CPU time (the engine's). The wall clock of a whole request is the
// harness's; of what is within one it is the engine's where both ends have it.
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
  // `seconds`: on the harness's clock since the process started, not decreasing; the event's clock, where
  // it has one, counts from there too. Throws DataLoss for an event that cannot come now, or not
  // at the time that it says; Unsupported or Unavailable with the engine's message for an error.
  void take(const Event& event, double seconds);

  bool ready() const noexcept { return ready_; }
  double ready_s() const noexcept { return ready_s_; }
  double cpu_s() const noexcept { return last_cpu_s_; }  // at the last event
  const Json& hello() const noexcept { return hello_; }
  // "weight_bytes", "activation_bytes", "scratch_bytes" as planned; null where an engine does not say.
  const Json& memory() const noexcept { return memory_; }
  const std::vector<StageTime>& loading() const noexcept { return loading_; }  // compile, load
  const std::vector<RunRecord>& runs() const noexcept { return runs_; }        // that have ended
  std::size_t saved() const noexcept { return saved_; }

 private:
  // When something happened.
  struct Moment {
    double seconds = 0, cpu_s = 0;
    std::optional<double> clock_s;
    Duration until(const Moment& later) const;
  };
  struct Open {
    std::string name;
    Moment began;
  };
  void begin(const Event& event, const Moment& now);
  void end(const Event& event, const Moment& now);
  void step(const Event& event, const Moment& now);
  Moment moment_of(const Event& event, double seconds);

  Json hello_, memory_;
  bool ready_ = false;
  double ready_s_ = 0, last_cpu_s_ = 0, last_clock_s_ = 0;
  std::vector<Open> open_;
  std::vector<StageTime> loading_;
  std::optional<RunRecord> run_;
  Moment step_start_;
  std::vector<RunRecord> runs_;
  std::size_t saved_ = 0;
};

}  // namespace difflet::bench
