// Help and reference pages, from the tables of base/options.h and base/error.h.
#include <algorithm>
#include <array>
#include <string>

#include "difflet/base/error.h"
#include "difflet/base/options.h"
#include "difflet/base/version.h"
#include "difflet/cli/parse.h"

namespace difflet::cli {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kColumn = 32;  // where explanations begin

std::string_view type_name(OptionType type) {
  switch (type) {
    case OptionType::Flag:
      return "";
    case OptionType::Integer:
    case OptionType::Seed:
      return "INTEGER";
    case OptionType::Number:
      return "NUMBER";
    case OptionType::Size:
      return "SIZE";
    case OptionType::Text:
      return "TEXT";
    case OptionType::Path:
      return "PATH";
  }
  return "";
}

std::string upper(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

std::string default_of(const OptionDecl& option, std::string_view command) {
  if (is_required(option, command)) {
    return "required";
  }
  if (!option.fallback.empty()) {
    return std::string(option.fallback);
  }
  return option.type == OptionType::Flag ? "off" : std::string(option.fallback_note);
}

// Words of `text` in lines that begin at `indent`; the first line is already there.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
  return out;
}

std::string option_help(const OptionDecl& option, std::string_view command) {
  std::string line = fmt::format("  --{}", option.name);
  for (std::size_t i = 0; i < option.values; ++i) {
    line += fmt::format(" {}", type_name(option.type));
  }
  line.resize(std::max(line.size() + 1, kColumn), ' ');
  std::string text(option.help);
  const std::string allowed = allowed_values(option);
  const std::string absent = default_of(option, command);
  if (!allowed.empty()) {
    text += fmt::format(" ({})", allowed);
  }
  if (!absent.empty() && option.type != OptionType::Flag) {
    text += absent == "required" ? " [required]" : fmt::format(" [default: {}]", absent);
  }
  return line + wrapped(text, kColumn);
}

std::string command_section(const CommandDecl& command) {
  std::string page = fmt::format("\n## `difflet {}`\n\n", command.name);
  std::string summary(command.summary);
  summary.front() = static_cast<char>(summary.front() - 'a' + 'A');
  page += wrapped(fmt::format("{}. {}", summary, command.details), 0);
  page +=
      "\n| option | values | default | meaning | changes | since |\n|---|---|---|---|---|---|\n";
  for (const OptionDecl* option : options_of(command.name)) {
    std::string values = allowed_values(*option);
    if (values.empty()) {
      values = option->type == OptionType::Flag   ? "-"
               : option->type == OptionType::Path ? "a path"
                                                  : "text";
    }
    page += fmt::format("| `--{}` | {} | {} | {} | {} | {} |\n", option->name, values,
                        default_of(*option, command.name), option->help,
                        option->effect == OptionEffect::Compile ? "the program" : "the run",
                        option->since);
  }
  return page;
}

constexpr std::string_view kMade = "<!-- Made by `difflet reference`; a test compares. -->\n\n";

std::string_view meaning(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument:
      return "an option, request or setting that can never work";
    case ErrorCode::NotFound:
      return "a file, folder, component or tensor that is not there";
    case ErrorCode::Unsupported:
      return "understood, but this build, chip or model does not do it";
    case ErrorCode::ResourceExhausted:
      return "memory, disk or a stated limit; the message says how much is needed";
    case ErrorCode::DataLoss:
      return "a file that is damaged, truncated or inconsistent, or numbers that are not finite";
    case ErrorCode::Unavailable:
      return "a device, server or file system that does not answer, or refuses";
    case ErrorCode::Cancelled:
      return "stopped by SIGINT (Ctrl-C), SIGTERM or SIGHUP";
    case ErrorCode::Internal:
      return "a bug in Difflet: please report it with the command line";
  }
  return "";
}

}  // namespace

std::string version_line() { return fmt::format("difflet {}\n", kVersion); }

std::string general_help() {
  std::string text = "usage: difflet COMMAND [--option value ...]\n\ncommands:\n";
  for (const CommandDecl& command : commands()) {
    text += fmt::format("  {:<19}{}\n", command.name, command.summary);
  }
  text +=
      "\n'difflet COMMAND --help' lists the options of a command; --version prints the version.\n";
  return text;
}

std::string family_help(std::string_view first) {
  std::string text = fmt::format("usage: difflet {} VERB [--option value ...]\n\n", first);
  for (const CommandDecl& command : commands()) {
    if (command.name.starts_with(fmt::format("{} ", first))) {
      text += fmt::format("  {:<19}{}\n", command.name, command.summary);
    }
  }
  return text;
}

std::string command_help(std::string_view name) {
  std::string text;
  for (const CommandDecl& command : commands()) {
    if (command.name != name) {
      continue;
    }
    const OptionDecl* words = positional_option(name);
    text = fmt::format("usage: difflet {0}{1} [--option value ...]\n\n{0}: {2}\n\n", command.name,
                       words == nullptr ? "" : fmt::format(" [{} ...]", upper(words->name)),
                       command.summary);
    if (!command.details.empty()) {
      text += wrapped(command.details, 0) + "\n";
    }
    text += "options:\n";
    for (const OptionDecl* option : options_of(name)) {
      text += option_help(*option, name);
    }
  }
  return text;
}

std::string cli_page() {
  std::string page(kMade);
  page += "# Command line\n\n";
  page += wrapped(
      "Results go to standard output, progress, warnings and errors to standard error. An error is "
      "one "
      "line, `difflet: error: ...`, and the exit status of its kind ([errors.md](errors.md)). An "
      "unknown "
      "option is refused with the nearest name. \"changes\" says whether another value means "
      "another "
      "compiled program or only another run.",
      0);
  for (const CommandDecl& command : commands()) {
    page += command_section(command);
  }
  return page;
}

std::string errors_page() {
  std::string page(kMade);
  page +=
      "# Errors\n\nExit status 0 is success. Otherwise stderr ends with one line, `difflet: error: "
      "...`.\n\n| status | kind | meaning |\n|---|---|---|\n";
  constexpr std::array kCodes{ErrorCode::InvalidArgument, ErrorCode::NotFound,
                              ErrorCode::Unsupported,     ErrorCode::ResourceExhausted,
                              ErrorCode::DataLoss,        ErrorCode::Unavailable,
                              ErrorCode::Internal,        ErrorCode::Cancelled};
  for (const ErrorCode code : kCodes) {
    page +=
        fmt::format("| {} | {} | {} |\n", exit_status(code), error_code_name(code), meaning(code));
  }
  return page;
}

}  // namespace difflet::cli
