// What is measured: a model, a part of it, shapes and steps, all pinned in one file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "difflet/artifact/json_fields.h"
#include "difflet/base/json.h"
#include "difflet/bench/synthetic.h"
#include "difflet/graph/op.h"
#include "difflet/tensor/dtype.h"

namespace difflet::bench {

// One of three.
struct ModelSource {
  std::optional<SyntheticFlux> synthetic;
  std::string repository, revision;  // of the hub, a commit of 40 hex digits
  std::string folder;                // relative to the source folder, or absolute
};

// One value of a swept field: the fields that it sets.
struct SweepPoint {
  std::string field, value;  // "size", "512x256"
};

// What is asked of an engine.
struct Request {
  std::string component;                 // folder of one component; empty: the whole pipeline
  std::int64_t width = 0, height = 0;    // pixels
  std::int64_t max_sequence_length = 0;  // T5 tokens
  std::int64_t n = 1;                    // pictures at once
  std::int64_t steps = 1;                // of a whole pipeline
  DType dtype = DType::BF16;
  graph::WeightQuant quant = graph::WeightQuant::None;  // of the layers that the model's rules name
  std::string prompt;
  double guidance = 0;
  std::uint64_t seed = 0;
  std::int64_t threads = 1;
  std::int64_t tp = 1;  // of the plan
};

struct Scenario : Request {
  std::string name, about;
  ModelSource model;
  // Points to measure one after another; empty: the scenario as it is.
  std::vector<SweepPoint> sweep;
  std::optional<SweepPoint> point;  // of the sweep that this scenario is
};

// Throws DataLoss, beginning with `origin`, for a field that is missing, unknown or out of range.
Scenario parse_scenario(std::string_view text, std::string_view origin);
// Reads and checks the fields of a request; throws as parse_scenario().
Request read_request(artifact::JsonFields& fields);
void write_request(const Request& request, Json& json);
// All fields but the sweep; parse_scenario() reads it back.
Json scenario_json(const Scenario& scenario);
// The same measurement: of two results with equal digests the times can be compared. Threads count.
std::string scenario_digest(const Scenario& scenario);

// The scenario for each number of threads (empty: its own) and each point of its sweep.
std::vector<Scenario> expand(const Scenario& scenario, const std::vector<std::int64_t>& threads);

// FLUX: 16 x 16 pixels a token.
std::int64_t image_tokens(const Scenario& scenario);
// "transformer, 512x512, bf16, 2 threads"; "bf16 w8a8" where weights are int8.
std::string describe(const Scenario& scenario);

}  // namespace difflet::bench
