// What a backend says while a graph is prepared for it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "difflet/graph/graph.h"

namespace difflet::graph {

// Why a backend does not run an op natively; printable ("linear: ...").
struct Refusal {
  std::string reason;
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const noexcept = 0;
  // Nothing when the backend runs the composite op itself; a refused composite is decomposed.
  virtual std::optional<Refusal> claims(const Op& op, std::span<const Type> operands) const = 0;
};

}  // namespace difflet::graph
