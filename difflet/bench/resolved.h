// A scenario with everything that an engine needs to run it: what its process gets as a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "difflet/base/json.h"
#include "difflet/bench/engine_spec.h"
#include "difflet/bench/scenario.h"

namespace difflet::bench {

struct Resolved : Request {
  std::string engine;
  std::filesystem::path model;   // folder, absolute
  std::filesystem::path inputs;  // safetensors, of a component
  std::filesystem::path work;    // folder for the engine's own files
  std::int64_t runs = 1;         // requests to expect
  Json options = Json::object();
};

// The engine's options "dtype" and "quant" replace the scenario's.
Resolved resolve(const Scenario& scenario, const EngineSpec& engine);
Json resolved_json(const Resolved& resolved, const std::string& name);
// Throws DataLoss for a field that is missing or of another kind.
Resolved parse_resolved(const Json& json);

}  // namespace difflet::bench
