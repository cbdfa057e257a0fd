// How the ranks of one process meet: each hands in a value and gets those of its group.
#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <vector>

#include "difflet/backends/reference/value.h"
#include "difflet/spmd/mesh.h"

namespace difflet::reference {

// Every rank of a group must call exchange() equally often, in the same order.
class Communicator {
 public:
  explicit Communicator(const spmd::Mesh& mesh) : mesh_(mesh) {}

  // Blocks until the whole group of `rank` along `axis` is here; returns its values in order of their
  // coordinate. Throws Cancelled after abort().
  std::vector<ValuePtr> exchange(std::int64_t rank, spmd::Axis axis, ValuePtr value);
  // Wakes every waiting rank and refuses further exchanges.
  void abort() noexcept;

 private:
  struct Meeting {
    std::vector<ValuePtr> values;
    std::size_t arrived = 0;
    std::size_t left = 0;
  };

  const spmd::Mesh mesh_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<spmd::Axis, std::int64_t>, Meeting> meetings_;  // by axis and first rank
  bool aborted_ = false;
};

}  // namespace difflet::reference
