// Commands and their options, declared once: parsing, help, the reference page and the checks of
// values all come from these tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace difflet {

// Size: bytes, as parse_bytes() takes them.
enum class OptionType { Flag, Integer, Number, Seed, Size, Text, Path };

// Whether another value means another compiled program, or only another run of it.
enum class OptionEffect { Compile, Run };

struct OptionDecl {
  std::string_view name = {};  // without dashes
  OptionType type = OptionType::Text;
  std::string_view fallback = {};       // default as it would be given; empty: none
  std::string_view fallback_note = {};  // what holds without the option, where no constant does
  double min = 0, max = 0;              // Integer and Number: inclusive
  std::string_view choices = {};        // Text: the values allowed, separated by spaces; empty: any
  std::string_view help = {};
  std::string_view commands = {};     // separated by spaces; "cache-ls" is the command "cache ls"
  std::string_view required_by = {};  // commands that cannot do without
  std::size_t values = 1;             // words that follow the name, each a value
  bool positional = false;            // words without a name are its values, any number of them
  OptionEffect effect = OptionEffect::Run;
  std::string_view since = "0.1.0";
};

struct CommandDecl {
  std::string_view name = {};     // one word or two
  std::string_view summary = {};  // one line
  std::string_view details = {};  // Markdown that help prints as it is
};

std::span<const OptionDecl> options();
std::span<const CommandDecl> commands();
std::vector<const OptionDecl*> options_of(std::string_view command);
const OptionDecl* find_option(std::string_view command, std::string_view name);  // null: none
const OptionDecl* positional_option(std::string_view command);                   // null: none
bool is_required(const OptionDecl& option, std::string_view command);

// "1 ... 65536", "bf16 or f32"; empty where anything goes.
std::string allowed_values(const OptionDecl& option);

// The candidate that is the fewest edits away, if it is near enough to be meant.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates);

// The options of one call, checked when they are set.
class OptionValues {
 public:
  explicit OptionValues(std::string_view command) : command_(command) {}

  // Throws InvalidArgument, naming the option and what is allowed; for an unknown option with the
  // nearest name. An option of several values is set that many times.
  void set(std::string_view name, std::string value);
  // Throws InvalidArgument naming a required option that is missing.
  void check_complete() const;

  // The values of those options that `command` has too.
  OptionValues of_command(std::string_view command) const;

  std::string_view command() const noexcept { return command_; }
  bool given(std::string_view name) const { return values_.contains(name); }
  // The value given or the default; the optional forms have nothing where there is neither.
  bool flag(std::string_view name) const { return given(name); }
  std::int64_t integer(std::string_view name) const;
  std::optional<std::int64_t> optional_integer(std::string_view name) const;
  double number(std::string_view name) const;
  std::uint64_t seed(std::string_view name) const;
  std::optional<std::size_t> optional_bytes(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::optional<std::string> optional_text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;  // all values given

 private:
  const OptionDecl& decl(std::string_view name) const;

  std::string_view command_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// As torch's manual_seed takes an integer: -2^63 ... 2^64 - 1, negative ones modulo 2^64. Nothing
// for other text.
std::optional<std::uint64_t> parse_seed(std::string_view text);

}  // namespace difflet
