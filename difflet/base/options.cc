#include "difflet/base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "difflet/base/error.h"
#include "difflet/base/units.h"

namespace difflet {
namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    if (space > 0) {
      out.push_back(text.substr(0, space));
    }
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out;
}

bool has_word(std::string_view list, std::string_view word) {
  const auto all = words(list);
  return std::find(all.begin(), all.end(), word) != all.end();
}

// A command as the lists of the table name it.
std::string word_of(std::string_view command) {
  std::string word(command);
  std::replace(word.begin(), word.end(), ' ', '-');
  return word;
}

std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void wrong_value(const OptionDecl& option, std::string_view value,
                              std::string_view what) {
  fail(ErrorCode::InvalidArgument, "--{}: '{}' is not {}", option.name, value, what);
}

void check_value(const OptionDecl& option, std::string_view value) {
  switch (option.type) {
    case OptionType::Flag:
      return;
    case OptionType::Integer: {
      const auto number = parse_whole<std::int64_t>(value);
      if (!number || static_cast<double>(*number) < option.min ||
          static_cast<double>(*number) > option.max) {
        wrong_value(option, value, fmt::format("an integer in {}", allowed_values(option)));
      }
      return;
    }
    case OptionType::Number: {
      const auto number = parse_whole<double>(value);
      const bool inside = number && *number >= option.min && *number <= option.max;  // not for NaN
      if (!inside) {
        wrong_value(option, value, fmt::format("a number in {}", allowed_values(option)));
      }
      return;
    }
    case OptionType::Seed:
      if (!parse_seed(value)) {
        wrong_value(option, value, "an integer in " + allowed_values(option));
      }
      return;
    case OptionType::Size:
      (void)parse_bytes(value, fmt::format("--{}", option.name));
      return;
    case OptionType::Text:
      if (!option.choices.empty() && !has_word(option.choices, value)) {
        wrong_value(option, value, allowed_values(option));
      }
      return;
    case OptionType::Path:
      check(!value.empty(), ErrorCode::InvalidArgument, "--{}: the path is empty", option.name);
      return;
  }
}

}  // namespace

std::optional<std::uint64_t> parse_seed(std::string_view text) {
  if (const auto positive = parse_whole<std::uint64_t>(text)) {
    return positive;
  }
  if (const auto negative = parse_whole<std::int64_t>(text)) {
    return static_cast<std::uint64_t>(*negative);
  }
  return std::nullopt;
}

std::vector<const OptionDecl*> options_of(std::string_view command) {
  std::vector<const OptionDecl*> out;
  for (const OptionDecl& option : options()) {
    if (has_word(option.commands, word_of(command))) {
      out.push_back(&option);
    }
  }
  return out;
}

const OptionDecl* find_option(std::string_view command, std::string_view name) {
  for (const OptionDecl* option : options_of(command)) {
    if (option->name == name) {
      return option;
    }
  }
  return nullptr;
}

const OptionDecl* positional_option(std::string_view command) {
  for (const OptionDecl* option : options_of(command)) {
    if (option->positional) {
      return option;
    }
  }
  return nullptr;
}

bool is_required(const OptionDecl& option, std::string_view command) {
  return has_word(option.required_by, word_of(command));
}

std::string allowed_values(const OptionDecl& option) {
  switch (option.type) {
    case OptionType::Integer:
      return fmt::format("{:.0f} ... {:.0f}", option.min, option.max);
    case OptionType::Number:
      return fmt::format("{:g} ... {:g}", option.min, option.max);
    case OptionType::Seed:
      return "-2^63 ... 2^64 - 1";
    case OptionType::Size:
      return "512M, 2G";
    case OptionType::Text: {
      const auto all = words(option.choices);
      std::string out;
      for (std::size_t i = 0; i < all.size(); ++i) {
        out += i == 0 ? "" : i + 1 == all.size() ? " or " : ", ";
        out += all[i];
      }
      return out;
    }
    case OptionType::Flag:
    case OptionType::Path:
      break;
  }
  return "";
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates) {
  if (name.empty()) {
    return std::nullopt;
  }
  std::string_view best;
  std::size_t fewest = std::max<std::size_t>(2, name.size() / 2) + 1;
  for (const std::string_view candidate : candidates) {
    // What is typed short is often the beginning of the name.
    const bool begins = name.size() >= 2 && candidate.starts_with(name);
    const std::size_t distance = begins ? 1 : edits(name, candidate);
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best.empty() ? std::nullopt : std::optional<std::string>(best);
}

void OptionValues::set(std::string_view name, std::string value) {
  const OptionDecl* option = find_option(command_, name);
  if (option == nullptr) {
    std::vector<std::string_view> names;
    for (const OptionDecl* known : options_of(command_)) {
      names.push_back(known->name);
    }
    const auto near = nearest_name(name, names);
    fail(ErrorCode::InvalidArgument, "{} has no option --{}; {}", command_, name,
         near ? fmt::format("did you mean --{}?", *near)
              : fmt::format("see 'difflet {} --help'", command_));
  }
  check_value(*option, value);
  std::vector<std::string>& values = values_[std::string(name)];
  check(option->positional || values.size() < option->values, ErrorCode::InvalidArgument,
        "--{} is given twice", name);
  values.push_back(std::move(value));
}

void OptionValues::check_complete() const {
  for (const OptionDecl* option : options_of(command_)) {
    check(given(option->name) || !is_required(*option, command_), ErrorCode::InvalidArgument,
          "{} needs --{}: {}", command_, option->name, option->help);
  }
}

OptionValues OptionValues::of_command(std::string_view command) const {
  OptionValues values(command);
  for (const auto& [name, given] : values_) {
    if (find_option(command, name) != nullptr) {
      values.values_.emplace(name, given);
    }
  }
  return values;
}

const OptionDecl& OptionValues::decl(std::string_view name) const {
  const OptionDecl* option = find_option(command_, name);
  if (option == nullptr) {
    fail(ErrorCode::Internal, "internal error: {} does not declare --{}", command_, name);
  }
  return *option;
}

std::optional<std::string> OptionValues::optional_text(std::string_view name) const {
  const OptionDecl& option = decl(name);
  if (const auto found = values_.find(name); found != values_.end()) {
    return found->second.front();
  }
  return option.fallback.empty() ? std::nullopt : std::optional<std::string>(option.fallback);
}

std::vector<std::string> OptionValues::texts(std::string_view name) const {
  (void)decl(name);
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::string OptionValues::text(std::string_view name) const {
  return optional_text(name).value_or("");
}

std::optional<std::int64_t> OptionValues::optional_integer(std::string_view name) const {
  const auto value = optional_text(name);
  return value ? parse_whole<std::int64_t>(*value) : std::nullopt;
}

std::optional<std::size_t> OptionValues::optional_bytes(std::string_view name) const {
  const auto value = optional_text(name);
  return value ? std::optional(parse_bytes(*value, fmt::format("--{}", name))) : std::nullopt;
}

std::int64_t OptionValues::integer(std::string_view name) const {
  const auto value = optional_integer(name);
  require(value.has_value(), "an integer option without a value");
  return *value;
}

double OptionValues::number(std::string_view name) const {
  const auto value = parse_whole<double>(text(name));
  require(value.has_value(), "a number option without a value");
  return *value;
}

std::uint64_t OptionValues::seed(std::string_view name) const {
  const auto value = parse_seed(text(name));
  require(value.has_value(), "a seed option without a value");
  return *value;
}

}  // namespace difflet
