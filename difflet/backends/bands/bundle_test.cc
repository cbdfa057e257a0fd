#include "difflet/backends/bands/bundle.h"

#include <gtest/gtest.h>

#include "difflet/base/error.h"

namespace difflet::bands {
namespace {

using graph::Type;
using runtime::CompiledProgram;
using runtime::Port;

constexpr std::int64_t kRows = 12;

Type rows_type(std::int64_t rows, std::int64_t channels) {
  return {DType::F32, Shape{1, rows, 5, channels}};
}

// z -> x -> y, each of 12 rows; x in bands of 4 rows, y in bands of 4 with one row around them.
Bundle bundle() {
  Bundle b;
  b.summary = "test";
  b.limit = 1 << 20;
  b.values = {{0, {rows_type(kRows, 2), {1, 1, kRows}}},
              {1, {rows_type(kRows, 8), {1, 1, kRows}}},
              {2, {rows_type(kRows, 3), {1, 1, kRows}}}};
  const auto program = [](const Port& in, const Port& out) {
    CompiledProgram p;
    p.name = "band";
    p.inputs = {in};
    p.inputs[0].binding = graph::Binding::Request;
    p.outputs = {out};
    p.pieces = {{"w|plain", 64}};
    p.code = "graph";
    return p;
  };
  b.programs = {program({"value.0", rows_type(4, 2), {}}, {"band", rows_type(4, 8), {}}),
                program({"value.1", rows_type(5, 8), {}}, {"band", rows_type(4, 3), {}})};
  b.legs = {{0, 1, {{1, false, kRows, {{0, {0, 4}, {0}}, {0, {4, 8}, {4}}, {0, {8, 12}, {8}}}}}},
            {1, 2, {{2, false, kRows, {{1, {0, 4}, {0}}, {1, {4, 8}, {3}}, {1, {8, 12}, {7}}}}}}};
  return b;
}

CompiledProgram holding(const Bundle& b) {
  CompiledProgram p;
  p.name = "p";
  p.inputs = {{"z", rows_type(kRows, 2), graph::Binding::Step}};
  p.outputs = {{"y", rows_type(kRows, 3), {}}};
  p.pieces = {{"w|plain", 64}};
  p.code = print_bundle(b, p.pieces);
  return p;
}

TEST(Bundle, ReadsWhatItPrints) {
  const CompiledProgram p = holding(bundle());
  EXPECT_TRUE(is_bundle(p));
  const Bundle read = read_bundle(p);
  EXPECT_EQ(print_bundle(read, p.pieces), p.code);
  EXPECT_EQ(read.programs[1].inputs[0].type, rows_type(5, 8));
}

TEST(Bundle, RefusesWhatItCouldNotRun) {
  const auto refused = [](const std::string& what, const auto& change) {
    Bundle b = bundle();
    change(b);
    try {
      (void)read_bundle(holding(b));
      ADD_FAILURE() << "accepted: " << what;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::DataLoss) << what;
      EXPECT_NE(std::string(e.message()).find(what), std::string::npos) << e.message();
    }
  };
  refused("reads rows that are not there",
          [](Bundle& b) { b.legs[1].passes[0].runs[2].first = {8}; });
  refused("reads more than its program",
          [](Bundle& b) { b.legs[1].passes[0].runs[2].first = {7, 0}; });
  refused("a value that is not there", [](Bundle& b) { b.legs[1].passes[0].runs[0].first = {}; });
  refused("rows that do not follow each other",
          [](Bundle& b) { b.legs[0].passes[0].runs[1].rows = {3, 7}; });
  refused("rows that no run makes", [](Bundle& b) { b.legs[0].passes[0].runs.pop_back(); });
  refused("makes other rows", [](Bundle& b) {
    b.legs[0].passes[0].runs[0].program = 1;
    b.values[0].type = rows_type(kRows, 2);
    b.programs[1].inputs[0] = b.programs[0].inputs[0];
  });
  refused("legs that do not follow each other", [](Bundle& b) { b.legs[1].from = 0; });
  refused("the input or output", [](Bundle& b) { b.values[2].type = rows_type(kRows, 4); });
  refused("an unknown value", [](Bundle& b) { b.values.erase(1); });
  refused("a value of another number of rows", [](Bundle& b) { b.legs[0].passes[0].count = 8; });
  refused("none carried", [](Bundle& b) {
    b.programs[0].inputs[0].name = "carry.1";
    for (auto& run : b.legs[0].passes[0].runs) {
      run.first.clear();
    }
  });
  refused("statistics that are not there", [](Bundle& b) {
    b.programs[0].inputs[0].name = "statistics.1";
    for (auto& run : b.legs[0].passes[0].runs) {
      run.first.clear();
    }
  });
  refused("unknown output", [](Bundle& b) { b.programs[0].outputs[0].name = "y"; });
  refused("rows do not fit its shape", [](Bundle& b) { b.values[1].rows.unit = 2; });
  refused("out of range", [](Bundle& b) { b.limit = 0; });
}

TEST(Bundle, TextThatIsNoneIsRefused) {
  CompiledProgram p = holding(bundle());
  for (const std::string& code :
       {p.code.substr(0, p.code.size() / 2), std::string(R"({"bands":1,"summary":3})"),
        std::string(R"({"bands":1,})"), p.code + "x"}) {
    p.code = code;
    EXPECT_THROW((void)read_bundle(p), Error);
  }
}

TEST(Bundle, ValuesShareOnePlaceSoThatNoRowIsOverwrittenBeforeItsLastReader) {
  Bundle b = bundle();
  // Leg 1 is the last: y is the caller's, x alone has a place.
  EXPECT_EQ(place_of(b, 0).bytes, b.values.at(1).bytes());
  EXPECT_EQ(place_of(b, 1).bytes, b.values.at(1).bytes());
  // With a leg after it, y of 60 bytes a row is written over x of 160.
  b.values[3] = {rows_type(kRows, 3), {1, 1, kRows}};
  CompiledProgram last = b.programs[0];
  last.inputs[0] = {"value.2", rows_type(4, 3), graph::Binding::Request};
  last.outputs[0].type = rows_type(4, 3);
  b.programs.push_back(last);
  b.legs.push_back(
      {2, 3, {{3, false, kRows, {{2, {0, 4}, {0}}, {2, {4, 8}, {4}}, {2, {8, 12}, {8}}}}}});
  const LegPlace place = place_of(b, 1);
  EXPECT_EQ(place.from, 0U);  // rows 0 ... 3 of y end at 240, row 3 of x begins at 480
  EXPECT_EQ(place.bytes, b.values.at(1).bytes());
  // The other way round y ends later than the rows of x that are still read begin.
  b.values[1].type = rows_type(kRows, 1);  // 20 bytes a row
  const LegPlace later = place_of(b, 1);
  EXPECT_EQ(later.from, 512U);  // 720 bytes of y less nothing that is read: 12 * 60 - 12 * 20 = 480
  EXPECT_EQ(later.bytes, std::max<std::size_t>(512 + 240, 720));
}

TEST(Bundle, PeakCountsValuesCarriedRowsAndPrograms) {
  const Bundle b = bundle();
  const std::vector<runtime::MemoryReport> programs{{0, 1000, 10}, {0, 2000, 20}};
  const runtime::MemoryReport peak = peak_of(b, programs);
  const std::size_t x = b.values.at(1).bytes();
  const std::size_t y = b.values.at(2).bytes();
  EXPECT_EQ(peak.arena_bytes + peak.scratch_bytes, x + y + 2000 + 20 + 4 * 5 * 3 * 4);
  EXPECT_EQ(peak.scratch_bytes, 20U);
}

}  // namespace
}  // namespace difflet::bands
