#include "difflet/bench/protocol.h"

#include "difflet/base/testing.h"
#include "difflet/bench/metrics.h"

namespace difflet::bench {
namespace {

constexpr const char* kHello = R"({"event":"hello","engine":"x","versions":{},"options":{}})";
constexpr const char* kOutput =
    R"({"event":"output","name":"sample","shape":[2],"finite":true,"min":0,"max":1,"mean":0.5})";

std::string pair(const char* event, const char* name, double cpu_s) {
  return fmt::format(R"({{"event":"{}","name":"{}","cpu_s":{}}})", event, name, cpu_s);
}
std::string step(int index, double cpu_s) {
  return fmt::format(R"({{"event":"step","index":{},"cpu_s":{}}})", index, cpu_s);
}

// Takes lines that come one second after another.
Session session_of(const std::vector<std::string>& lines) {
  Session session;
  double seconds = 0;
  for (const std::string& line : lines) {
    session.take(parse_event(line), seconds += 1);
  }
  return session;
}

TEST(Protocol, ARequestHasStagesStepsAndOutputs) {
  const Session session =
      session_of({kHello, pair("begin", "load", 1), pair("end", "load", 2), R"({"event":"ready"})",
                  pair("begin", "run", 2), pair("begin", "denoise", 2), step(0, 5), step(1, 6),
                  step(2, 8), pair("end", "denoise", 8), kOutput, pair("end", "run", 9)});
  EXPECT_EQ(session.ready_s(), 4);
  ASSERT_EQ(session.loading().size(), 1U);
  EXPECT_EQ(session.loading()[0].time.cpu_s, 1);
  ASSERT_EQ(session.runs().size(), 1U);
  const RunRecord& run = session.runs()[0];
  EXPECT_EQ(run.total.wall_s, 7);
  EXPECT_EQ(run.total.cpu_s, 7);
  EXPECT_EQ(run.until_output_s, 11);
  ASSERT_EQ(run.steps.size(), 3U);
  EXPECT_EQ(run.steps[0].cpu_s, 3);

  Scenario scenario;
  EXPECT_EQ(main_time(scenario, run).cpu_s, 7);
  scenario.component = "transformer";
  EXPECT_EQ(main_time(scenario, run).cpu_s, 1.5);  // the first step does not count
  RunRecord one = run;
  one.steps.clear();
  EXPECT_EQ(main_time(scenario, one).cpu_s, 6);
  const auto metrics = request_metrics(scenario, {run});
  EXPECT_EQ(metrics.at("step").cpu_s, (std::vector<double>{1, 2}));
}

std::string timed(const char* event, const char* name, double clock_s) {
  return fmt::format(R"({{"event":"{}","name":"{}","cpu_s":0,"clock_s":{}}})", event, name,
                     clock_s);
}

TEST(Protocol, TheEnginesClockTimesWhatIsWithinARequest) {
  const Session session = session_of(
      {kHello, R"({"event":"ready"})", timed("begin", "run", 2), timed("begin", "denoise", 2.25),
       R"({"event":"step","index":0,"cpu_s":0,"clock_s":2.5})",
       R"({"event":"step","index":1,"cpu_s":0,"clock_s":3.5})", timed("end", "denoise", 3.75),
       pair("begin", "decode", 0), timed("end", "decode", 9), kOutput, timed("end", "run", 9)});
  const RunRecord& run = session.runs()[0];
  EXPECT_EQ(run.total.wall_s, 8);  // the harness's
  ASSERT_EQ(run.stages.size(), 2U);
  EXPECT_EQ(run.stages[0].time.wall_s, 1.5);
  EXPECT_EQ(run.stages[1].time.wall_s, 1);  // one end alone says nothing
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].wall_s, 0.25);
  EXPECT_EQ(run.steps[1].wall_s, 1);
}

TEST(Protocol, AClockIsThatOfThisMachine) {
  EXPECT_ERROR(session_of({kHello, timed("begin", "load", 2.5)}), ErrorCode::DataLoss,
               "cannot be beyond 2 s");
  EXPECT_ERROR(session_of({kHello, timed("begin", "load", 2), timed("end", "load", 1)}),
               ErrorCode::DataLoss, "CLOCK_MONOTONIC");
  EXPECT_ERROR(session_of({kHello, timed("begin", "load", -1)}), ErrorCode::DataLoss, "'clock_s'");
}

TEST(Metrics, EachKernelIsMeasuredByTheCeilingOfItsArithmetic) {
  const auto group = [](const char* kernel, double flops, double seconds) {
    return Json{{"kernel", kernel}, {"flops", flops}, {"seconds", seconds}};
  };
  const Json profile{{"groups",
                      {group("linear.avx512bf16.bf16", 100e9, 2), group("copy", 0, 1),
                       group("linear.avx512vnni.w8a8", 400e9, 3),
                       group("linear.avx2.f32", 50e9, 9)}}};  // no ceiling: does not count
  EXPECT_EQ(arithmetics_of(profile, "avx512bf16"),
            (std::set{Arithmetic::F32Ymm, Arithmetic::Bf16Zmm, Arithmetic::Int8Zmm}));
  const Rates rates{{Arithmetic::Bf16Zmm, 100}, {Arithmetic::Int8Zmm, 200}};
  const Share all = share_of(profile, "", "", "avx512bf16", rates);
  EXPECT_EQ(all.flops, 500e9);
  EXPECT_EQ(all.seconds, 6);
  EXPECT_EQ(all.least_s, 3);
  const Share int8 = share_of(profile, "linear", ".w8a8", "avx512bf16", rates);
  EXPECT_EQ(int8.least_s, 2);
  EXPECT_EQ(int8.seconds, 3);
  EXPECT_EQ(share_of(Json(), "", "", "avx512bf16", rates).flops, 0);
  EXPECT_EQ(level_of(Json{{"versions", {{"cpu_level", "avx2"}}}}), "avx2");
  EXPECT_EQ(level_of(Json()), "");
}

TEST(Protocol, ReadyMaySayWhatIsHeld) {
  const Session session = session_of({kHello, R"({"event":"ready","memory":{"weight_bytes":12}})"});
  EXPECT_EQ(session.memory(), (Json{{"weight_bytes", 12}}));
  EXPECT_TRUE(session_of({kHello, R"({"event":"ready"})"}).memory().is_null());
  EXPECT_ERROR(parse_event(R"({"event":"ready","memory":{"weight_bytes":-1}})"),
               ErrorCode::DataLoss, "no number of bytes");
  EXPECT_ERROR(parse_event(R"({"event":"ready","memory":[]})"), ErrorCode::DataLoss,
               "not an object");
}

TEST(Protocol, LinesAreChecked) {
  EXPECT_ERROR(parse_event("Loading 100%"), ErrorCode::DataLoss, "standard output");
  EXPECT_ERROR(parse_event("[]"), ErrorCode::DataLoss, "no JSON object");
  EXPECT_ERROR(parse_event(R"({"event":"party"})"), ErrorCode::DataLoss, "unknown event 'party'");
  EXPECT_ERROR(parse_event(R"({"event":"begin","name":"run"})"), ErrorCode::DataLoss, "'cpu_s'");
  EXPECT_ERROR(parse_event(R"({"event":"step","index":-1,"cpu_s":0})"), ErrorCode::DataLoss,
               "'index'");
  EXPECT_ERROR(parse_event(R"({"event":"output","name":"x","shape":[-1]})"), ErrorCode::DataLoss,
               "'shape'");
  EXPECT_ERROR(parse_event(std::string(kMaxLine + 1, ' ')), ErrorCode::DataLoss, "a line of more");
}

TEST(Protocol, TheOrderIsChecked) {
  const auto refused = [](std::vector<std::string> lines, ErrorCode code, const char* part) {
    EXPECT_ERROR(session_of(lines), code, part);
  };
  refused({R"({"event":"ready"})"}, ErrorCode::DataLoss, "not 'hello'");
  refused({kHello, kHello}, ErrorCode::DataLoss, "second 'hello'");
  refused({kHello, pair("begin", "run", 0)}, ErrorCode::DataLoss, "before 'ready'");
  refused({kHello, pair("begin", "a", 0), pair("end", "b", 0)}, ErrorCode::DataLoss, "not open");
  refused({kHello, pair("begin", "a", 2), pair("end", "a", 1)}, ErrorCode::DataLoss, "goes back");
  refused({kHello, kOutput}, ErrorCode::DataLoss, "outside of a run");
  refused({kHello, R"({"event":"ready"})", pair("begin", "run", 0), pair("end", "run", 0)},
          ErrorCode::DataLoss, "without an output");
  refused({kHello, R"({"event":"ready"})", pair("begin", "run", 0), step(1, 0)},
          ErrorCode::DataLoss, "step 1 after 0");
  refused({R"({"event":"error","kind":"unsupported","message":"no AMX"})"}, ErrorCode::Unsupported,
          "no AMX");
  refused({R"({"event":"error","kind":"failed","message":"no luck"})"}, ErrorCode::Unavailable,
          "no luck");
}

}  // namespace
}  // namespace difflet::bench
