#include "difflet/bench/trace.h"

#include <gtest/gtest.h>

namespace difflet::bench {
namespace {

runtime::StepTime step(std::string what, double start_s, double seconds) {
  runtime::StepTime s;
  s.kernel = what.substr(0, what.find(' '));
  s.what = std::move(what);
  s.start_s = start_s;
  s.seconds = seconds;
  s.flops = 100;
  s.bytes = 50;
  return s;
}

Json example() {
  return chrome_trace(
      {{"transformer", "request", {step("linear.avx2.f32 t : f32[2, 3]", 0, 0.5)}},
       {"transformer",
        "step",
        {step("linear.avx2.f32 blocks.0 to_q.weight : f32[1, 5, 8]; the best; of all", 0.25, 1),
         step("copy", 1.5, 0)}},
       {"vae", "step", {step("copy  : f32[1]", 0, 2)}},
       {"vae", "nothing", {}}});
}

// What chrome://tracing and Perfetto read: an object with the list "traceEvents"; complete events with
// name, cat, ts, dur, pid and tid, metadata events that name processes and threads.
TEST(Trace, HasTheSchemaOfTraceEvents) {
  const Json trace = parse_json(example().dump(), "trace");
  ASSERT_TRUE(trace.is_object());
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
  ASSERT_TRUE(trace.at("traceEvents").is_array());
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    EXPECT_TRUE(event.at("pid").is_number_integer());
    EXPECT_TRUE(event.at("tid").is_number_integer());
    EXPECT_TRUE(event.at("args").is_object());
    if (phase == "M") {
      const std::string name = event.at("name");
      EXPECT_TRUE(name == "process_name" || name == "thread_name") << name;
      EXPECT_TRUE(event.at("args").at("name").is_string());
      continue;
    }
    EXPECT_EQ(phase, "X");
    EXPECT_FALSE(event.at("name").get<std::string>().empty());
    EXPECT_TRUE(event.at("cat").is_string());
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    EXPECT_TRUE(event.at("args").at("flops").is_number());
    EXPECT_TRUE(event.at("args").at("bytes").is_number());
  }
}

std::vector<Json> complete_events() {
  std::vector<Json> events;
  const Json trace = example();
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") {
      events.push_back(event);
    }
  }
  return events;
}

TEST(Trace, ProgramsOfAComponentFollowOneAnother) {
  const std::vector<Json> events = complete_events();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].at("ts"), 0);
  EXPECT_EQ(events[0].at("dur"), 0.5e6);
  EXPECT_EQ(events[1].at("ts"), 0.75e6);
  EXPECT_EQ(events[2].at("ts"), 2e6);
  EXPECT_EQ(events[0].at("pid"), events[1].at("pid"));
  EXPECT_NE(events[0].at("tid"), events[1].at("tid"));
  EXPECT_NE(events[0].at("pid"), events[3].at("pid"));
  EXPECT_EQ(events[3].at("ts"), 0);
}

TEST(Trace, ArgumentsAreThePartsOfTheLine) {
  const std::vector<Json> events = complete_events();
  EXPECT_EQ(events[1].at("name"), "linear.avx2.f32");
  EXPECT_EQ(events[1].at("cat"), "linear");
  const Json& arguments = events[1].at("args");
  EXPECT_EQ(arguments.at("op"), "blocks.0 to_q.weight");
  EXPECT_EQ(arguments.at("result"), "f32[1, 5, 8]");
  EXPECT_EQ(arguments.at("why"), "the best; of all");
  EXPECT_DOUBLE_EQ(arguments.at("gflops").get<double>(), 100e-9);
  EXPECT_EQ(events[2].at("args").at("op"), "");
  EXPECT_FALSE(events[2].at("args").contains("gflops"));
}

}  // namespace
}  // namespace difflet::bench
