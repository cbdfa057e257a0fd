// From the requests of an engine to named series of samples.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/bench/protocol.h"
#include "difflet/bench/result.h"
#include "difflet/bench/scenario.h"

namespace difflet::bench {

// What a scenario is about: of a pipeline the whole request; of a component the stage around its
// forward, or, where an engine makes several steps, the median step without the first; the whole request
// where an engine does not say.
Duration main_time(const Scenario& scenario, const RunRecord& run);

// "main", "run", every stage, and "step": each step but the first of a request.
std::map<std::string, Series> request_metrics(const Scenario& scenario,
                                              const std::vector<RunRecord>& runs);
void add_sample(std::map<std::string, Series>& metrics, const std::string& name,
                const Duration& time);
Json request_json(const RunRecord& run);

// Work of a kind of kernel, from an engine's profile.
struct Share {
  double flops = 0, seconds = 0;
  double least_s = 0;  // thread-seconds that the flops take at the ceilings of their arithmetic
};
// GFLOP/s of one thread.
using Rates = std::map<Arithmetic, double>;
// The kernels whose name begins with `kind` ("" for all) and ends in `suffix`. `level`: of the engine
// ("avx512bf16"). Kernels of an arithmetic that has no rate do not count.
Share share_of(const Json& profile, std::string_view kind, std::string_view suffix,
               std::string_view level, const Rates& ceilings);
// What the kernels of a profile that compute anything compute with.
std::set<Arithmetic> arithmetics_of(const Json& profile, std::string_view level);
// "cpu_level" of the versions; empty where an engine does not say.
std::string level_of(const Json& hello);

}  // namespace difflet::bench
