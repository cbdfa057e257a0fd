// Arguments to checked option values (CLI11), and the help texts; all from the option tables.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "difflet/base/options.h"

namespace difflet::cli {

// What the arguments ask for: options of a command, or a text to print.
struct Request {
  std::optional<OptionValues> options;
  std::string text;  // help or version, when there are no options
};

// Throws InvalidArgument in one sentence, with the nearest name for an unknown command or option.
Request parse_arguments(int argc, const char* const* argv);

std::string general_help();
std::string command_help(std::string_view command);
std::string family_help(std::string_view first);  // of the commands that begin with this word
std::string version_line();

// The pages docs/reference/cli.md and docs/reference/errors.md.
std::string cli_page();
std::string errors_page();

}  // namespace difflet::cli
