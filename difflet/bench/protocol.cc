#include "difflet/bench/protocol.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "difflet/base/error.h"

namespace difflet::bench {
namespace {

constexpr std::size_t kMaxText = 2000;  // bytes of a name or message that are kept
constexpr std::size_t kMaxDepth = 16;   // open pairs
constexpr std::size_t kMaxSteps = 100000;
constexpr std::size_t kMaxOutputs = 64;

template <typename... Args>
void expect(bool ok, fmt::format_string<Args...> format, Args&&... args) {
  check(ok, ErrorCode::DataLoss, format, std::forward<Args>(args)...);
}

const Json& member(const Json& json, const char* key) {
  const auto found = json.find(key);
  expect(found != json.end(), "event without '{}'", key);
  return *found;
}

std::string text(const Json& json, const char* key) {
  const Json& value = member(json, key);
  expect(value.is_string(), "'{}' of an event is not a string", key);
  return value.get<std::string>().substr(0, kMaxText);
}

double seconds(const Json& json, const char* key) {
  const Json& value = member(json, key);
  const double number = value.is_number() ? value.get<double>() : -1;
  expect(number >= 0 && number < 1e12, "'{}' of an event is not a number of seconds", key);
  return number;
}

std::int64_t step_index(const Json& json) {
  const Json& value = member(json, "index");
  expect(value.is_number_unsigned() && value.get<std::uint64_t>() < kMaxSteps,
         "'index' of a step is not a small integer");
  return value.get<std::int64_t>();
}

void read_times(const Json& json, Event& event) {
  event.cpu_s = seconds(json, "cpu_s");
  if (json.contains("clock_s")) {
    event.clock_s = seconds(json, "clock_s");
  }
}

EventKind kind_of(const std::string& name) {
  constexpr std::array<std::string_view, 9> kNames{"hello",  "begin",   "end",   "step", "ready",
                                                   "output", "profile", "saved", "error"};
  const auto found = std::ranges::find(kNames, name);
  expect(found != kNames.end(), "unknown event '{}'", name);
  return static_cast<EventKind>(found - kNames.begin());
}

// Bytes by what they are for.
void check_memory(const Json& json) {
  expect(json.is_object() && json.size() <= 16, "'memory' of ready is not an object");
  for (const Json& bytes : json) {
    expect(bytes.is_number_unsigned(), "'memory' of ready holds what is no number of bytes");
  }
}

// Shape, finite, min, max and mean of an output.
void check_output(const Json& json) {
  const Json& shape = member(json, "shape");
  expect(shape.is_array() && shape.size() <= 8, "'shape' of an output is not a list");
  for (const Json& extent : shape) {
    expect(extent.is_number_unsigned(), "'shape' of an output holds what is no extent");
  }
  expect(member(json, "finite").is_boolean(), "'finite' of an output is not true or false");
  for (const char* key : {"min", "max", "mean"}) {
    expect(member(json, key).is_number() || member(json, key).is_null(),
           "'{}' of an output is not a number", key);
  }
}

}  // namespace

Event parse_event(std::string_view line) {
  expect(line.size() <= kMaxLine, "a line of more than {} bytes", kMaxLine);
  const Json json = parse_json(line, "standard output");
  expect(json.is_object(), "a line that is no JSON object");
  Event event;
  event.kind = kind_of(text(json, "event"));
  switch (event.kind) {
    case EventKind::Hello:
      (void)text(json, "engine");
      expect(member(json, "versions").is_object(), "'versions' of hello is not an object");
      if (const auto level = json["versions"].find("cpu_level"); level != json["versions"].end()) {
        expect(level->is_string(), "'cpu_level' of hello is not a string");
      }
      event.data = json;
      break;
    case EventKind::Begin:
    case EventKind::End:
      event.name = text(json, "name");
      read_times(json, event);
      break;
    case EventKind::Step:
      event.index = step_index(json);
      read_times(json, event);
      break;
    case EventKind::Output:
      event.name = text(json, "name");
      check_output(json);
      event.data = json;
      break;
    case EventKind::Profile:
      expect(member(json, "groups").is_array(), "'groups' of a profile is not a list");
      event.data = json;
      break;
    case EventKind::Error:
      event.message = text(json, "message");
      event.name = text(json, "kind");
      expect(event.name == "unsupported" || event.name == "failed",
             "'kind' of an error is not unsupported or failed");
      break;
    case EventKind::Ready:
      if (json.contains("memory")) {
        check_memory(json["memory"]);
        event.data = json["memory"];
      }
      break;
    case EventKind::Saved:
      break;
  }
  return event;
}

std::string command_line(std::string_view what) { return Json{{"do", what}}.dump() + "\n"; }

std::string save_line(const std::string& path) {
  return Json{{"do", "save"}, {"path", path}}.dump() + "\n";
}

// The engine's clock where both moments have it: lines that arrive together have no time between them.
Duration Session::Moment::until(const Moment& later) const {
  const bool told = clock_s.has_value() && later.clock_s.has_value();
  return {told ? *later.clock_s - *clock_s : later.seconds - seconds, later.cpu_s - cpu_s};
}

// Both clocks are the machine's: an event is said after it happened, and in order.
Session::Moment Session::moment_of(const Event& event, double seconds) {
  expect(event.cpu_s >= last_cpu_s_, "CPU time that goes back, from {} s to {} s", last_cpu_s_,
         event.cpu_s);
  last_cpu_s_ = event.cpu_s;
  if (event.clock_s) {
    constexpr double kRounding = 1e-3;
    expect(*event.clock_s >= last_clock_s_ - kRounding && *event.clock_s <= seconds + kRounding,
           "a clock at {} s, which was at {} s before and cannot be beyond {} s: not this "
           "machine's CLOCK_MONOTONIC",
           *event.clock_s, last_clock_s_, seconds);
    last_clock_s_ = *event.clock_s;
  }
  return {.seconds = seconds, .cpu_s = event.cpu_s, .clock_s = event.clock_s};
}

void Session::begin(const Event& event, const Moment& now) {
  expect(open_.size() < kMaxDepth, "more than {} pairs are open", kMaxDepth);
  if (event.name == "run") {
    expect(ready_ && open_.empty() && !run_, "a run that begins before 'ready' or in another pair");
    run_.emplace();
  }
  open_.push_back({event.name, now});
  step_start_ = now;
}

void Session::end(const Event& event, const Moment& now) {
  expect(!open_.empty() && open_.back().name == event.name, "end of '{}', which is not open",
         event.name);
  const Moment began = open_.back().began;
  open_.pop_back();
  if (event.name == "run") {
    expect(run_ && !run_->outputs.empty(), "a run that ends without an output");
    run_->total = {now.seconds - began.seconds, now.cpu_s - began.cpu_s};
    runs_.push_back(std::move(*run_));
    run_.reset();
  } else {
    (run_ ? run_->stages : loading_).push_back({event.name, began.until(now)});
    step_start_ = now;
  }
}

void Session::step(const Event& event, const Moment& now) {
  expect(run_.has_value(), "a step outside of a run");
  expect(event.index == static_cast<std::int64_t>(run_->steps.size()), "step {} after {} steps",
         event.index, run_->steps.size());
  run_->steps.push_back(step_start_.until(now));
  step_start_ = now;
}

void Session::take(const Event& event, double seconds) {
  expect(!hello_.is_null() || event.kind == EventKind::Hello || event.kind == EventKind::Error,
         "the first event is not 'hello'");
  switch (event.kind) {
    case EventKind::Hello:
      expect(hello_.is_null(), "a second 'hello'");
      hello_ = event.data;
      break;
    case EventKind::Begin:
      begin(event, moment_of(event, seconds));
      break;
    case EventKind::End:
      end(event, moment_of(event, seconds));
      break;
    case EventKind::Step:
      step(event, moment_of(event, seconds));
      break;
    case EventKind::Ready:
      expect(!ready_ && open_.empty(), "'ready' a second time or within a pair");
      ready_ = true;
      memory_ = event.data;
      ready_s_ = seconds;
      break;
    case EventKind::Output:
      expect(run_.has_value(), "an output outside of a run");
      expect(run_->outputs.size() < kMaxOutputs, "more than {} outputs", kMaxOutputs);
      run_->outputs.push_back(event.data);
      run_->until_output_s = seconds;
      break;
    case EventKind::Profile:
      expect(run_.has_value(), "a profile outside of a run");
      run_->profile = event.data;
      break;
    case EventKind::Saved:
      expect(!runs_.empty() && !run_, "'saved' before a run or within it");
      ++saved_;
      break;
    case EventKind::Error:
      fail(event.name == "unsupported" ? ErrorCode::Unsupported : ErrorCode::Unavailable, "{}",
           event.message);
  }
}

}  // namespace difflet::bench
