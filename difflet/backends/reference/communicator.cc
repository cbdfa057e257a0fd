#include "difflet/backends/reference/communicator.h"

#include "difflet/base/error.h"

namespace difflet::reference {

std::vector<ValuePtr> Communicator::exchange(std::int64_t rank, spmd::Axis axis, ValuePtr value) {
  const auto size = static_cast<std::size_t>(mesh_.size(axis));
  if (size == 1) {
    return {std::move(value)};
  }
  const auto index = static_cast<std::size_t>(mesh_.coordinate(rank, axis));
  std::unique_lock lock(mutex_);
  Meeting& meeting = meetings_[{axis, mesh_.group(rank, axis).front()}];
  const auto wait = [&](const auto& ready) {
    changed_.wait(lock, [&] { return aborted_ || ready(); });
    check(!aborted_, ErrorCode::Cancelled, "another rank has failed");
  };
  // The slot stays taken until everybody has left the meeting before.
  wait([&] { return meeting.left == 0 && meeting.arrived < size; });
  meeting.values.resize(size);
  meeting.values[index] = std::move(value);
  ++meeting.arrived;
  changed_.notify_all();
  wait([&] { return meeting.arrived == size; });
  std::vector<ValuePtr> values = meeting.values;
  if (++meeting.left == size) {
    meeting = {};
    changed_.notify_all();
  }
  return values;
}

void Communicator::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  changed_.notify_all();
}

}  // namespace difflet::reference
