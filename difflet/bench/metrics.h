// From the requests of an engine to named series of samples.
#pragma once

#include <map>
#include <string>
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

// FLOPs and share of the ceiling of a kind of kernel, from an engine's profile.
struct Share {
  double flops = 0, seconds = 0;
  double of_ceiling = 0;  // of `ceiling` GFLOP/s a thread; 0: not known
};
// `kind`: kernels whose name begins with it, or "" for all.
Share share_of(const Json& profile, std::string_view kind, double ceiling, std::int64_t threads);

}  // namespace difflet::bench
