// What the folders of a synthetic model hold besides weights: configurations and tokenizers.
#pragma once

#include <string>
#include <vector>

#include "difflet/base/json.h"
#include "difflet/bench/synthetic.h"
#include "difflet/graph/graph.h"

namespace difflet::bench {

// A component of the pipeline whose weights are written.
struct SyntheticPart {
  std::string folder;                    // also its name in model_index.json
  std::string weights;                   // file name without ".safetensors"
  Json config;                           // config.json
  std::vector<graph::ParamDecl> params;  // all tensors of the checkpoint
};
std::vector<SyntheticPart> synthetic_parts(const SyntheticFlux& recipe);

// A file of JSON, its path relative to the model's folder.
struct SyntheticFile {
  std::string path;
  Json content;
};
// model_index.json, the scheduler's configuration and both tokenizers.
std::vector<SyntheticFile> synthetic_files();

}  // namespace difflet::bench
