// One list of small programs, one op each: what every backend must agree with `reference` on. The
// benchmarks of ops use the same list.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "difflet/graph/graph.h"
#include "difflet/runtime/executable.h"

namespace difflet::conformance {

// What an operand holds. `Float` is of the dtype under test, the others of their own.
enum class Kind { Float, F32, I32, I8, Bool };
enum class Role { Input, Param };

struct Operand {
  Shape shape;
  Kind kind = Kind::Float;
  // Values are uniform in [low, high), integers too.
  double low = -2;
  double high = 2;
  Role role = Role::Input;
};

struct Case {
  std::string name;
  graph::Op op;
  std::vector<Operand> operands;
};

// At least one case for every op of the variant.
std::vector<Case> cases();

// The program "y" = op(operands) with floats of dtype `floats`; parameters are called "p0", "p1" ...
graph::Graph build(const Case& c, DType floats);
// Values for every operand, the same in each call; floats are exact in dtype `floats`.
std::vector<HostTensor> values(const Case& c, DType floats);

// The operands that are inputs, in their order, converted as build(c, floats) reads them.
std::vector<HostTensor> inputs(const Case& c, const std::vector<HostTensor>& values, DType floats);

// Gives the operands that are parameters by their name.
class CaseWeights final : public runtime::WeightSource {
 public:
  explicit CaseWeights(std::vector<HostTensor> values) : values_(std::move(values)) {}
  HostTensor whole(const graph::ParamDecl& param) const override;

 private:
  std::vector<HostTensor> values_;
};

}  // namespace difflet::conformance
