// One name table for each enumeration of the op set, indexed by value: the spelling of the text form.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "difflet/graph/op.h"

namespace difflet::graph {

std::span<const std::string_view> names(Binding) noexcept;
std::span<const std::string_view> names(UnaryKind) noexcept;
std::span<const std::string_view> names(BinaryKind) noexcept;
std::span<const std::string_view> names(CompareKind) noexcept;
std::span<const std::string_view> names(ReduceKind) noexcept;
std::span<const std::string_view> names(Activation) noexcept;
std::span<const std::string_view> names(WeightQuant) noexcept;
std::span<const std::string_view> names(RopePairs) noexcept;

template <typename E>
concept NamedEnum = requires(E e) { names(e); };

template <NamedEnum E>
std::string_view enum_name(E value) noexcept {
  const auto table = names(value);
  const auto i = static_cast<std::size_t>(value);
  return i < table.size() ? table[i] : "?";
}

template <NamedEnum E>
std::optional<E> parse_enum(std::string_view name) noexcept {
  const auto table = names(E{});
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i] == name) {
      return static_cast<E>(i);
    }
  }
  return std::nullopt;
}

}  // namespace difflet::graph
