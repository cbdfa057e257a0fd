// A small artifact for tests: two programs a shape, a few pieces of known bytes.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "difflet/artifact/store.h"

namespace difflet::artifact::testing {

inline ShapeEntry shape_entry(std::int64_t size) {
  return {.inputs = {{"hidden_states", {1, size, 64}}, {"timestep", {1}}},
          .graph = std::string(64, static_cast<char>('0' + size % 10))};
}

inline Identity identity(const std::vector<std::int64_t>& sizes = {4}, std::int64_t tp = 1) {
  Identity id;
  id.model = "TestModel";
  id.source.content = std::string(64, 'c');
  id.mesh = spmd::Mesh(1, 1, 1, tp);
  id.options = {{"schedule_capacity", std::int64_t{64}}};
  id.backend = "cpu";
  id.toolchain = {{"difflet", "0.1.0"}, {"cpu_level", "avx2"}};
  std::vector<ShapeEntry> shapes;
  shapes.reserve(sizes.size());
  for (const std::int64_t size : sizes) {
    shapes.push_back(shape_entry(size));
  }
  add_shapes(id, std::move(shapes));
  return id;
}

inline runtime::CompiledProgram program(const Identity& id, std::size_t shape, Stage stage) {
  const std::string name = program_name(shape, stage);
  const graph::Type type{DType::BF16, Shape{2, 3}};
  runtime::CompiledProgram p;
  p.name = name;
  p.mesh = id.mesh;
  p.inputs = {{"x", type, graph::Binding::Step}, {"t", type, graph::Binding::Schedule}};
  p.outputs = {{"y", type}};
  p.pieces = {{"shared|plain", 64}};
  if (stage == Stage::Step) {
    p.pieces.push_back({"z.weight|rows", 8192});
    p.pieces.push_back({"a.weight|rows", 192});
  }
  p.code = "code of " + name + " of " + id.shapes[shape].graph;
  return p;
}

inline std::byte piece_byte(const std::string& name, std::size_t rank) {
  return static_cast<std::byte>(name[0] + static_cast<char>(rank));
}

inline void pack(const runtime::CompiledProgram& p, std::size_t rank, runtime::PieceSink& sink) {
  for (const runtime::WeightPiece& piece : p.pieces) {
    const auto memory = sink.begin(piece);
    if (!memory.empty()) {
      std::memset(memory.data(), std::to_integer<int>(piece_byte(piece.name, rank)), memory.size());
      sink.end(piece);
    }
  }
}

// As a compiler would; gives what was there already if it was.
inline Artifact publish(const Store& store, const Identity& id, PublishRequest request = {}) {
  Publication publication = store.publish(id, std::move(request));
  if (publication.found()) {
    return *publication.found();
  }
  std::vector<runtime::CompiledProgram> programs;
  for (std::size_t shape = 0; shape < id.shapes.size(); ++shape) {
    for (const Stage stage : {Stage::Request, Stage::Step}) {
      programs.push_back(program(id, shape, stage));
      publication.add_program(shape, stage, programs.back());
    }
  }
  if (!publication.weights()) {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(id.mesh.ranks()); ++rank) {
      ShardWriter& shard = publication.begin_shard(rank);
      for (const runtime::CompiledProgram& p : programs) {
        pack(p, rank, shard);
      }
      publication.end_shard();
    }
  }
  return publication.keep();
}

// Whether programs and the weights of all ranks are what publish() made.
inline bool is_whole(const Artifact& artifact, ThreadPool& threads, ShardMode mode) {
  const Identity& id = artifact.manifest().identity;
  std::vector<std::size_t> ranks;
  ranks.reserve(artifact.ranks());
  for (std::size_t rank = 0; rank < artifact.ranks(); ++rank) {
    ranks.push_back(rank);
  }
  const auto weights = artifact.open_weights(ranks, mode, threads);
  for (std::size_t shape = 0; shape < id.shapes.size(); ++shape) {
    for (const Stage stage : {Stage::Request, Stage::Step}) {
      const runtime::CompiledProgram expected = program(id, shape, stage);
      const runtime::CompiledProgram p = artifact.program(shape, stage);
      if (p.code != expected.code || p.inputs != expected.inputs || p.outputs != expected.outputs ||
          p.name != expected.name || p.pieces != expected.pieces || !(p.mesh == expected.mesh)) {
        return false;
      }
      for (const std::size_t rank : ranks) {
        for (const runtime::WeightPiece& piece : p.pieces) {
          for (const std::byte b : weights[rank]->piece(piece)) {
            if (b != piece_byte(piece.name, rank)) {
              return false;
            }
          }
        }
      }
    }
  }
  return ranks.size() == static_cast<std::size_t>(id.mesh.ranks());
}

}  // namespace difflet::artifact::testing
