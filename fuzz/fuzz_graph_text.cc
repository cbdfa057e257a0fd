// Hostile graph text: parse() refuses it, or gives a graph whose printed form parses to the same text
// and which every pass leaves valid.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/graph/graph.h"
#include "difflet/graph/passes/passes.h"

namespace {

namespace passes = difflet::graph::passes;

void check_laws(std::string_view text) {
  const difflet::graph::Graph graph = difflet::graph::parse(text);
  const std::string printed = print(graph);
  difflet::fuzz::law(print(difflet::graph::parse(printed)) == printed, "print(parse(x)) == x");
  for (const auto pass : {passes::eliminate_dead, passes::merge_common, passes::simplify,
                          passes::fuse_linear, passes::fuse_norm}) {
    verify(pass(graph));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept(
      [&] { check_laws({reinterpret_cast<const char*>(data), size}); });
}
