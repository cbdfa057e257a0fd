// Checkpoint weights that are made while they are written.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "difflet/base/thread_pool.h"
#include "difflet/graph/graph.h"

namespace difflet::bench {

// Writes random bf16 values of `params` below `folder`: "<name>.safetensors", or beyond 2 GB several
// shards with their index. Each thread fills and writes blocks of some megabytes, so memory does not
// depend on the size. The files are durable at the end. `check_stop` is called before each
// block, from any thread, and may throw. Throws ResourceExhausted (disk full), Unavailable; whole
// shards stay.
void write_random_shards(
    const std::filesystem::path& folder, const std::string& name,
    std::span<const graph::ParamDecl> params, ThreadPool& threads,
    const std::function<void()>& check_stop = [] {});

}  // namespace difflet::bench
