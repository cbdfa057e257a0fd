// Which files of a repository a pipeline needs.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace difflet::io::hub {

// What is wanted of a repository.
struct Wanted {
  std::string variant;  // of the weights; empty: those without one
  // The components that a pipeline class needs; empty: all that its model_index.json lists.
  std::function<std::vector<std::string>(std::string_view)> components;
};

struct Selection {
  std::vector<std::string> files;    // sorted; model_index.json is the last
  std::vector<std::string> missing;  // what is needed and not there, each with a reason
};

// The text of one of the repository's JSON files.
using ReadText = std::function<std::string(const std::string& path)>;

// Of `paths`: model_index.json and, for each component that it lists and the pipeline needs,
// configuration, tokenizer and the safetensors file or the index with its shards; without a
// model_index.json the same of the root, which is one component then. Throws DataLoss for JSON that is
// not what it should be, naming `origin` and the file, and what `read` throws.
Selection select_files(const std::set<std::string>& paths, const Wanted& wanted,
                       const ReadText& read, const std::string& origin);

}  // namespace difflet::io::hub
