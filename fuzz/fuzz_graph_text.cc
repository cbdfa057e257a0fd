// Hostile graph text: parse() refuses it with InvalidArgument, or gives a graph whose printed form
// parses to the same text.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "difflet/base/error.h"
#include "difflet/graph/graph.h"
#include "difflet/graph/passes/passes.h"

namespace {

using difflet::graph::Graph;

void require(bool law) {
  if (!law) {
    std::abort();
  }
}

void check_laws(std::string_view text) {
  const Graph graph = difflet::graph::parse(text);
  const std::string printed = print(graph);
  require(print(difflet::graph::parse(printed)) == printed);
  for (const auto pass : {difflet::graph::passes::eliminate_dead,
                          difflet::graph::passes::merge_common, difflet::graph::passes::simplify,
                          difflet::graph::passes::fuse_linear, difflet::graph::passes::fuse_norm}) {
    verify(pass(graph));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check_laws({reinterpret_cast<const char*>(data), size});
  } catch (const difflet::Error& e) {
    require(e.code() == difflet::ErrorCode::InvalidArgument);
  }
  return 0;
}
