#include "difflet/graph/passes/extract.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "difflet/graph/passes/naming.h"
#include "difflet/graph/passes/passes.h"

namespace difflet::graph::passes {
namespace {

// "a.3" of "a.3.b.1"; empty without a number.
std::string_view block_of(std::string_view scope) {
  for (std::size_t begin = 0; begin < scope.size();) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    const std::string_view part = scope.substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos) {
      return scope.substr(0, end);
    }
    begin = end + 1;
  }
  return {};
}

// Inputs and leaves belong to every segment that reads them.
bool is_shared(const Op& op) { return std::holds_alternative<Input>(op) || is_leaf(op); }

// Nodes [first, last) of one block; the shared ones among them belong to nobody.
struct Run {
  std::string_view block;
  NodeId first = 0, last = 0;
};

std::vector<Run> find_runs(const Graph& graph) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto id = static_cast<NodeId>(i);
    if (is_shared(node.op)) {
      continue;
    }
    const std::string_view block = block_of(graph.scope_name(node.scope));
    if (runs.empty() || runs.back().block != block) {
      runs.push_back({block, id, id});
    }
    runs.back().last = id + 1;
  }
  if (runs.empty()) {
    runs.push_back({});
  }
  return runs;
}

std::vector<std::string> run_names(const std::vector<Run>& runs) {
  std::map<std::string, int> times;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string name = "all";
    if (!runs[i].block.empty()) {
      name = runs[i].block;
    } else if (i + 1 < runs.size()) {
      name = fmt::format("before {}", runs[i + 1].block);
    } else if (i > 0) {
      name = fmt::format("after {}", runs[i - 1].block);
    }
    const int time = ++times[name];
    names.push_back(time == 1 ? name : fmt::format("{} ({})", name, time));
  }
  return names;
}

class Extraction {
 public:
  explicit Extraction(const Graph& graph)
      : graph_(graph), runs_(find_runs(graph)), map_(graph.nodes().size()) {
    name_values();
  }

  std::vector<Segment> run() {
    const std::vector<std::string> names = run_names(runs_);
    std::vector<Segment> all;
    all.reserve(runs_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      all.push_back({names[i], segment(i, names[i])});
    }
    return all;
  }

 private:
  static constexpr std::size_t kNoSegment = ~std::size_t{0};
  struct Copy {
    std::size_t segment = kNoSegment;
    NodeId node = 0;
  };

  // Values that a later segment reads.
  void name_values() {
    std::vector<bool> read_later(graph_.nodes().size(), false);
    for (const Run& run : runs_) {
      for (NodeId id = run.first; id < run.last; ++id) {
        for (const NodeId operand : graph_.node(id).inputs) {
          read_later[operand] = read_later[operand] || operand < run.first;
        }
      }
    }
    UniqueNames names;
    for (const NodeId id : graph_.inputs()) {
      names.take(std::get<Input>(graph_.node(id).op).name);
    }
    for (const Output& output : graph_.outputs()) {
      names.take(output.name);
    }
    for (std::size_t i = 0; i < read_later.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (read_later[i] && !is_shared(graph_.node(id).op)) {
        names_.emplace(id, names.next(stem(graph_, id)));
      }
    }
  }

  Graph segment(std::size_t index, const std::string& name) {
    const Run& run = runs_[index];
    Graph to(graph_.name().empty() ? name : fmt::format("{}/{}", graph_.name(), name),
             graph_.mesh());
    std::vector<NodeId> operands;
    for (NodeId id = run.first; id < run.last; ++id) {
      const Node& node = graph_.node(id);
      if (is_shared(node.op)) {
        continue;
      }
      operands.clear();
      for (const NodeId operand : node.inputs) {
        operands.push_back(find(to, index, operand));
      }
      to.set_scope(graph_.scope_name(node.scope));
      map_[id] = {index, copy_node(to, graph_, id, operands)};
    }
    to.restore_scope(0);
    add_outputs(to, index);
    return to;
  }

  // The operand in segment `index`: computed there, copied into it, or an input of it.
  NodeId find(Graph& to, std::size_t index, NodeId id) {
    if (map_[id].segment != index) {
      const Node& node = graph_.node(id);
      map_[id].segment = index;
      to.set_scope(is_shared(node.op) ? graph_.scope_name(node.scope) : "");
      map_[id].node = is_shared(node.op)
                          ? copy_node(to, graph_, id, {})
                          : to.add(Input{names_.at(id), node.type.dtype, node.type.shape}, {});
    }
    return map_[id].node;
  }

  void add_outputs(Graph& to, std::size_t index) {
    const Run& run = runs_[index];
    const auto end = names_.lower_bound(run.last);
    for (auto named = names_.lower_bound(run.first); named != end; ++named) {
      to.add_output(named->second, map_[named->first].node);
    }
    const bool last = index + 1 == runs_.size();
    for (const Output& output : graph_.outputs()) {
      const bool here = is_shared(graph_.node(output.node).op)
                            ? last
                            : output.node >= run.first && output.node < run.last;
      if (here) {
        to.add_output(output.name, find(to, index, output.node));
      }
    }
  }

  const Graph& graph_;
  std::vector<Run> runs_;
  std::map<NodeId, std::string> names_;  // of values between segments
  std::vector<Copy> map_;                // by node: where it was put last
};

}  // namespace

std::vector<std::string> blocks(const Graph& graph) {
  std::vector<std::string> names;
  std::set<std::string_view> known{""};
  for (const Node& node : graph.nodes()) {
    const std::string_view block = block_of(graph.scope_name(node.scope));
    if (!is_shared(node.op) && known.insert(block).second) {
      names.emplace_back(block);
    }
  }
  return names;
}

std::vector<Segment> segments(const Graph& graph) {
  const Graph live = eliminate_dead(graph);
  return Extraction(live).run();
}

}  // namespace difflet::graph::passes
