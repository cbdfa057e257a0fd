#include "difflet/nn/scope.h"

namespace difflet::nn {

Tensor Scope::param(std::string_view name, const Shape& shape, const graph::Placement& placement,
                    std::vector<std::string> aliases) const {
  graph::ParamDecl decl{.name = path_.empty() ? std::string(name) : path_ + "." + std::string(name),
                        .aliases = std::move(aliases),
                        .dtype = dtype_,
                        .shape = shape,
                        .placement = placement};
  return {graph_, graph_->add_param(std::move(decl))};
}

graph::Placement split(std::int64_t dim, std::vector<std::int64_t> segments) {
  return {.split = true, .dim = dim, .mesh_axis = spmd::Axis::Tp, .segments = std::move(segments)};
}

}  // namespace difflet::nn
