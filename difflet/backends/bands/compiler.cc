#include "difflet/backends/bands/compiler.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/base/units.h"
#include "difflet/graph/cost.h"

namespace difflet::bands {
using graph::NodeId;
using graph::passes::Band;
using graph::passes::HeldValues;
using graph::passes::RowPass;
using runtime::CompiledProgram;
using runtime::MemoryReport;

BundleCompiler::BundleCompiler(const graph::Graph& graph, const runtime::Backend& inner,
                               Context& context, const runtime::BackendOptions& options)
    : graph_(graph), bands_(graph), inner_(inner), context_(context), options_(options) {
  check(
      BandPlanner::can_plan(bands_), ErrorCode::Unsupported,
      "program '{}' cannot be computed in bands of rows: it is not one picture made from one input",
      graph.name());
  planner_.emplace(bands_);
}

// The bundle's program that is equal to this graph.
std::size_t BundleCompiler::program_of(Bundle& bundle, const graph::Graph& band) {
  const std::string text = graph::print(band);
  const auto [place, fresh] = places_.try_emplace(text, bundle.programs.size());
  if (fresh) {
    auto found = compiled_.find({options_.little_scratch, text});
    if (found == compiled_.end()) {
      CompiledProgram program = inner_.compile(band, context_, options_);
      const MemoryReport memory = inner_.plan(program, context_, options_);
      found = compiled_
                  .emplace(std::pair{options_.little_scratch, text},
                           Compiled{std::move(program), memory})
                  .first;
    }
    bundle.programs.push_back(found->second.program);
    memory_.push_back(found->second.memory);
  }
  return place->second;
}

BandPass BundleCompiler::build_pass(Bundle& bundle, const PlannedPass& planned,
                                    const HeldValues& held) {
  const RowPass pass(bands_, target_of(graph_, planned), held);
  const NodeId target = target_of(graph_, planned).node;
  BandPass built{.node = planned.node,
                 .statistics = planned.statistics,
                 .count = bands_.rows(target).count,
                 .runs = {}};
  std::map<std::string, std::size_t> programs;  // by signature
  const std::vector<RowPass::Ends> schedule = pass.schedule(planned.rows);
  for (std::size_t i = 1; i < schedule.size(); ++i) {
    BandRun run{.program = 0, .rows = {schedule[i - 1][target], schedule[i][target]}, .first = {}};
    const auto [known, fresh] =
        programs.try_emplace(pass.signature(schedule[i - 1], schedule[i]), 0);
    if (fresh) {
      const Band band = pass.cut(schedule[i - 1], schedule[i]);
      if (band.graph.outputs().empty()) {  // rows of which nothing new is made
        programs.erase(known);
        continue;
      }
      known->second = program_of(bundle, band.graph);
    }
    run.program = known->second;
    run.first = pass.held_reads(schedule[i - 1], schedule[i]);
    built.runs.push_back(std::move(run));
  }
  return built;
}

BundleCompiler::Built BundleCompiler::build(const BandPlan& plan) {
  Built built;
  built.bundle.little_scratch = options_.little_scratch;
  places_.clear();
  memory_.clear();
  const auto keep = [&](NodeId id) {
    built.bundle.values.emplace(id, KeptValue{graph_.node(id).type, bands_.rows(id)});
  };
  keep(plan.legs.front().from);
  for (const PlannedLeg& planned : plan.legs) {
    BandLeg leg{.from = planned.from, .to = planned.to, .passes = {}};
    HeldValues held{.values = {planned.from}, .statistics = {}};
    for (const PlannedPass& pass : planned.passes) {
      leg.passes.push_back(build_pass(built.bundle, pass, held));
      if (pass.statistics) {
        held.statistics.insert(pass.node);
      } else {
        held.values.insert(pass.node);
        keep(pass.node);
      }
    }
    built.bundle.legs.push_back(std::move(leg));
  }
  built.memory = peak_of(built.bundle, memory_);
  return built;
}

std::string BundleCompiler::summary(const BandPlan& plan, const Built& built) const {
  std::size_t passes = 0;
  std::int64_t lowest = 0;
  std::int64_t tallest = 0;
  for (const PlannedLeg& leg : plan.legs) {
    for (const PlannedPass& pass : leg.passes) {
      ++passes;
      lowest = lowest == 0 ? pass.rows : std::min(lowest, pass.rows);
      tallest = std::max(tallest, pass.rows);
    }
  }
  return fmt::format(
      "{} values kept whole, {} passes in bands of {} rows, {} programs, {:.1f} times "
      "the work, {} besides weights",
      plan.legs.size() - 1, passes,
      lowest == tallest ? fmt::format("{}", lowest) : fmt::format("{} to {}", lowest, tallest),
      built.bundle.programs.size(), plan.flops / graph::flops(graph_),
      readable_bytes(built.memory.arena_bytes + built.memory.scratch_bytes));
}

CompiledProgram BundleCompiler::finish(Planned& planned, std::size_t limit) const {
  const BandPlan& plan = planned.plan;
  Built& built = planned.built;
  CompiledProgram program{.name = graph_.name(),
                          .mesh = graph_.mesh(),
                          .inputs = runtime::input_ports(graph_),
                          .outputs = runtime::output_ports(graph_),
                          .pieces = {},
                          .code = {}};
  std::set<std::string> pieces;
  std::set<std::string> notes;
  for (const CompiledProgram& band : built.bundle.programs) {
    for (const runtime::WeightPiece& piece : band.pieces) {
      if (pieces.insert(piece.name).second) {
        program.pieces.push_back(piece);
      }
    }
    notes.insert(band.notes.begin(), band.notes.end());
  }
  built.bundle.limit = limit;
  built.bundle.summary = summary(plan, built);
  program.code = print_bundle(built.bundle, program.pieces);
  program.notes = {"in bands of rows: " + built.bundle.summary};
  program.notes.insert(program.notes.end(), notes.begin(), notes.end());
  return program;
}

// The plan of least work found whose exact memory is within the limit: estimates leave out scratch, and
// count what a backend may do in place.
std::optional<BundleCompiler::Planned> BundleCompiler::search(std::size_t limit) {
  constexpr int kTries = 9;
  std::size_t low = 0;
  std::size_t high = limit + limit / 2;
  std::optional<Planned> best;
  for (int i = 0; i < kTries; ++i) {
    const std::size_t budget = i == 0 ? high : low + (high - low) / 2;
    BandPlan plan = planner_->cheapest(budget);
    if (plan.legs.empty()) {
      low = budget;
      continue;
    }
    Built built = build(plan);
    if (built.bytes() > limit) {
      high = budget;
      continue;
    }
    low = budget;
    if (!best || plan.flops < best->plan.flops) {
      best = Planned{std::move(plan), std::move(built)};
    }
  }
  return best;
}

// The least estimate and some percent.
BundleCompiler::Planned BundleCompiler::near_smallest(std::size_t percent) {
  const std::size_t smallest = planner_->smallest();
  Planned planned;
  planned.plan = planner_->cheapest(smallest + smallest / 100 * percent);
  planned.built = build(planned.plan);
  return planned;
}

// First with the fastest kernels, then with those of little scratch.
std::optional<BundleCompiler::Planned> BundleCompiler::find(std::size_t limit) {
  for (const bool little_scratch : {false, true}) {
    options_.little_scratch = little_scratch;
    if (auto found = search(limit)) {
      return found;
    }
  }
  return std::nullopt;
}

CompiledProgram BundleCompiler::compile(std::size_t limit, std::size_t whole) {
  if (auto found = find(limit)) {
    return finish(*found, limit);
  }
  // Near the smallest estimate, the same plans for every limit: one that is named below works.
  std::size_t least = whole;
  constexpr std::array<std::size_t, 4> kPercent{20, 10, 5, 0};
  for (const std::size_t percent : kPercent) {
    Planned planned = near_smallest(percent);
    if (planned.built.bytes() <= limit) {
      return finish(planned, limit);
    }
    least = std::min(least, planned.built.bytes());
  }
  constexpr std::size_t kUnit = 1024;
  while (auto found = find((least - 1) / kUnit * kUnit)) {
    least = found->built.bytes();
  }
  fail(ErrorCode::ResourceExhausted,
       "program '{}' cannot be computed within --vae-memory-limit {}: the smallest limit that "
       "works is {}",
       graph_.name(), size_text(limit), size_text(least));
}

}  // namespace difflet::bands
