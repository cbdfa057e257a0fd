#include "difflet/graph/passes/split_bindings.h"

#include <algorithm>
#include <map>

#include "difflet/base/error.h"
#include "difflet/graph/cost.h"
#include "difflet/graph/enum_names.h"
#include "difflet/graph/passes/batch_axis.h"
#include "difflet/graph/passes/match.h"
#include "difflet/graph/passes/naming.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

// When a value is known; leaves other than inputs are copied into each program that reads them.
enum class When : std::uint8_t { Always, Request, Schedule, Step };

When when_of(Binding binding) {
  switch (binding) {
    case Binding::Request:
      return When::Request;
    case Binding::Schedule:
      return When::Schedule;
    case Binding::Step:
      return When::Step;
  }
  fail(ErrorCode::Internal, "split_bindings: unknown binding {}", static_cast<int>(binding));
}

Binding binding_of(When when) {
  return when == When::Step       ? Binding::Step
         : when == When::Schedule ? Binding::Schedule
                                  : Binding::Request;
}

bool is_view(const Op& op) {
  return std::holds_alternative<Reshape>(op) || std::holds_alternative<Slice>(op) ||
         std::holds_alternative<Transpose>(op) || std::holds_alternative<Broadcast>(op);
}

class Splitter {
 public:
  Splitter(const Graph& graph, const SplitOptions& options)
      : graph_(graph),
        options_(options),
        when_(size(), When::Request),
        again_(size(), false),
        crosses_(size(), false) {
    for (std::size_t i = 0; i < size(); ++i) {
      when_[i] = classify(static_cast<NodeId>(i));
    }
    find_recomputed();
    // Later programs say what they need of the earlier ones.
    step_ = needed(When::Step);
    schedule_ = needed(When::Schedule);
    request_ = needed(When::Request);
    name_crossing();
  }

  SplitGraph split() const {
    SplitGraph out{.step = program(When::Step, step_), .capacity = options_.schedule_capacity};
    if (has_outputs(When::Request)) {
      out.request = program(When::Request, request_);
    }
    if (has_outputs(When::Schedule)) {
      const Graph one = program(When::Schedule, schedule_);
      std::vector<std::string> batched;
      for (const NodeId id : one.inputs()) {
        const auto& input = std::get<Input>(one.node(id).op);
        if (input.binding == Binding::Schedule) {
          batched.push_back(input.name);
        }
      }
      out.schedule = merge_common(batch_axis(one, options_.schedule_capacity, batched));
    }
    out.moved = moved();
    for (const Moved& m : out.moved) {
      out.notes.push_back(m.str());
    }
    out.flops_saved = flops(graph_) - flops(out.step);
    out.weight_bytes_saved = weight_bytes(graph_) - weight_bytes(out.step);
    return out;
  }

 private:
  std::size_t size() const { return graph_.nodes().size(); }
  const Node& node(std::size_t id) const { return graph_.nodes()[id]; }

  When classify(NodeId id) {
    const Op& op = node(id).op;
    if (const auto* input = std::get_if<Input>(&op)) {
      return when_of(input->binding);
    }
    if (is_leaf(op)) {
      return When::Always;
    }
    When latest = When::Request;
    for (const NodeId operand : node(id).inputs) {
      latest = std::max(latest, when_[operand]);
    }
    if (latest == When::Schedule) {
      if (std::string reason = refusal(id); !reason.empty()) {
        refusals_.emplace(id, std::move(reason));
        return When::Step;
      }
    }
    return latest;
  }

  // Why a value of the schedule is computed in the step.
  std::string refusal(NodeId id) const {
    const Shape& shape = node(id).type.shape;
    const std::int64_t rows =
        shape.rank() == 0 ? 1 : shape.elements() / std::max<std::int64_t>(1, shape.dim(-1));
    if (!is_view(node(id).op) && rows > options_.max_schedule_rows) {
      return fmt::format("{} rows a step, more than {}", rows, options_.max_schedule_rows);
    }
    std::vector<bool> batched;
    for (const NodeId operand : node(id).inputs) {
      batched.push_back(when_[operand] == When::Schedule);
    }
    return cannot_batch(graph_, id, batched).value_or("");
  }

  // Marks the nodes that a later program computes again rather than reads.
  void find_recomputed() {
    std::vector<bool> fused(size(), false);
    std::vector<bool> read(size(), false);  // by a later node that does not fuse it
    for (std::size_t i = 0; i < size(); ++i) {
      for (const NodeId operand : node(i).inputs) {
        if (when_[i] > when_[operand] && is_norm(operand)) {
          (fuses(i, operand) ? fused : read)[operand] = true;
        }
      }
    }
    for (const Output& output : graph_.outputs()) {
      read[output.node] = true;
    }
    for (std::size_t i = 0; i < size(); ++i) {
      again_[i] = is_view(node(i).op) || scales(i) || (fused[i] && !read[i]);
    }
  }
  bool is_norm(NodeId id) const {
    return op_of<LayerNorm>(graph_, id) != nullptr || op_of<RmsNorm>(graph_, id) != nullptr;
  }
  bool fuses(std::size_t reader, NodeId norm) const {
    const auto* binary = std::get_if<Binary>(&node(reader).op);
    const bool modulates = binary != nullptr && binary->kind == BinaryKind::Mul;
    const bool rotates = std::holds_alternative<Rope>(node(reader).op);
    return op_of<LayerNorm>(graph_, norm) != nullptr ? modulates : rotates;
  }
  bool scales(std::size_t id) const {
    return std::holds_alternative<Binary>(node(id).op) &&
           std::ranges::any_of(node(id).inputs, [&](NodeId operand) {
             return constant_scalar(graph_, operand).has_value();
           });
  }

  // Whether `program` reads the value from an earlier one. Inputs are read by whoever needs them.
  bool crosses_into(When program, std::size_t id) const {
    return when_[id] != When::Always && when_[id] < program && !again_[id] &&
           !std::holds_alternative<Input>(node(id).op);
  }

  // The nodes that `program` has, as its own or as inputs; marks what crosses into it.
  std::vector<bool> needed(When program) {
    std::vector<bool> needs(size(), false);
    if (program == When::Step) {
      for (const Output& output : graph_.outputs()) {
        needs[output.node] = true;
      }
    } else {
      for (std::size_t i = 0; i < size(); ++i) {
        needs[i] = crosses_[i] && when_[i] == program;
      }
    }
    for (std::size_t i = size(); i-- > 0;) {
      if (!needs[i]) {
        continue;
      }
      if (crosses_into(program, i)) {
        crosses_[i] = true;
        continue;
      }
      for (const NodeId operand : node(i).inputs) {
        needs[operand] = true;
      }
    }
    return needs;
  }

  void name_crossing() {
    UniqueNames names;
    for (const NodeId id : graph_.inputs()) {
      names.take(std::get<Input>(node(id).op).name);
    }
    for (std::size_t i = 0; i < size(); ++i) {
      if (crosses_[i]) {
        const auto id = static_cast<NodeId>(i);
        const std::string_view program = enum_name(binding_of(when_[i]));
        names_.emplace(id, names.next(fmt::format("{}/{}", program, stem(graph_, id))));
      }
    }
  }

  bool has_outputs(When program) const {
    return std::ranges::any_of(names_,
                               [&](const auto& named) { return when_[named.first] == program; });
  }

  // Inputs of the joined graph come first, then what crosses, then the rest in its order.
  Graph program(When program, const std::vector<bool>& needs) const {
    const std::string_view suffix = enum_name(binding_of(program));
    Graph to(
        graph_.name().empty() ? std::string(suffix) : fmt::format("{}/{}", graph_.name(), suffix),
        graph_.mesh());
    std::vector<NodeId> map(size(), 0);
    for (const NodeId id : graph_.inputs()) {
      if (needs[id]) {
        map[id] = to.add(node(id).op, {});
      }
    }
    for (const auto& [id, name] : names_) {
      if (needs[id] && when_[id] < program) {
        const Type& type = node(id).type;
        map[id] = to.add(Input{name, type.dtype, type.shape, binding_of(when_[id])}, {});
      }
    }
    std::vector<NodeId> operands;
    for (std::size_t i = 0; i < size(); ++i) {
      const bool is_input = std::holds_alternative<Input>(node(i).op) || crosses_into(program, i);
      if (!needs[i] || is_input) {
        continue;
      }
      operands.clear();
      for (const NodeId operand : node(i).inputs) {
        operands.push_back(map[operand]);
      }
      to.set_scope(graph_.scope_name(node(i).scope));
      map[i] = copy_node(to, graph_, static_cast<NodeId>(i), operands);
    }
    to.restore_scope(0);
    add_outputs(to, program, map);
    return to;
  }

  void add_outputs(Graph& to, When program, const std::vector<NodeId>& map) const {
    if (program == When::Step) {
      for (const Output& output : graph_.outputs()) {
        to.add_output(output.name, map[output.node]);
      }
      return;
    }
    for (const auto& [id, name] : names_) {
      if (when_[id] == program) {
        to.add_output(name, map[id]);
      }
    }
  }

  std::size_t weights_of(std::size_t id) const {
    std::size_t bytes = 0;
    for (const NodeId operand : node(id).inputs) {
      if (const auto* param = op_of<Param>(graph_, operand)) {
        bytes +=
            weight_bytes(graph_.params()[static_cast<std::size_t>(param->index)], graph_.mesh());
      }
    }
    return bytes;
  }

  std::vector<Moved> moved() const {
    std::vector<Moved> all;
    for (std::size_t i = 0; i < size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      const auto refused = refusals_.find(id);
      const bool early = (when_[i] == When::Request && request_[i]) ||
                         (when_[i] == When::Schedule && schedule_[i]);
      const std::size_t weights = weights_of(i);
      const bool moves = early && !std::holds_alternative<Input>(node(i).op) &&
                         (names_.contains(id) || weights > 0);
      if (moves || refused != refusals_.end()) {
        const std::string module = module_of(graph_, id);
        all.push_back(
            {.what = fmt::format("{}{}{}", label(node(i).op), module.empty() ? "" : " ", module),
             .binding = binding_of(when_[i]),
             .flops = flops(graph_, id),
             .weight_bytes = weights,
             .refusal = moves ? "" : refused->second});
      }
    }
    return all;
  }

  const Graph& graph_;
  const SplitOptions options_;
  std::vector<When> when_;
  std::vector<bool> again_;                      // computed again in each program that needs it
  std::vector<bool> crosses_;                    // read by a later program
  std::vector<bool> request_, schedule_, step_;  // what needed() returned
  std::map<NodeId, std::string> names_;          // of what crosses
  std::map<NodeId, std::string> refusals_;
};

}  // namespace

std::string Moved::str() const {
  if (!refusal.empty()) {
    return fmt::format("step: {} stays: {}", what, refusal);
  }
  std::string text = fmt::format("{}: {}, {:.4g} MFLOP", enum_name(binding), what, flops / 1e6);
  if (weight_bytes > 0) {
    constexpr double kMebibyte = 1024 * 1024;
    text += fmt::format(", {:.4g} MiB", static_cast<double>(weight_bytes) / kMebibyte);
  }
  return text;
}

SplitGraph split_bindings(const Graph& graph, const SplitOptions& options) {
  check(options.schedule_capacity >= 1, ErrorCode::InvalidArgument,
        "split_bindings: the schedule's capacity {} must be positive", options.schedule_capacity);
  const std::vector<NodeId> inputs = graph.inputs();
  const bool has_steps = std::any_of(inputs.begin(), inputs.end(), [&](NodeId id) {
    return std::get<Input>(graph.node(id).op).binding != Binding::Request;
  });
  if (!has_steps) {
    SplitGraph whole;
    whole.step = graph;
    whole.capacity = options.schedule_capacity;
    return whole;
  }
  const Graph merged = merge_common(graph);
  return Splitter(merged, options).split();
}

}  // namespace difflet::graph::passes
