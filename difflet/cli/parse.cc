#include "difflet/cli/parse.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>

#include "difflet/base/error.h"

namespace difflet::cli {
namespace {

[[noreturn]] void refuse_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CommandDecl& command : commands()) {
    names.push_back(command.name);
  }
  const auto near = nearest_name(name, names);
  fail(ErrorCode::InvalidArgument, "no command '{}'; {}", name,
       near ? fmt::format("did you mean '{}'?", *near) : "see 'difflet --help'");
}

// What CLI11 left over: a word without a name, or an unknown option.
void take_extra(OptionValues& values, const std::string& argument) {
  if (!argument.starts_with('-') || argument == "-") {
    if (const OptionDecl* positional = positional_option(values.command())) {
      values.set(positional->name, argument);
      return;
    }
    fail(ErrorCode::InvalidArgument, "{} does not take the argument '{}'; see 'difflet {} --help'",
         values.command(), argument, values.command());
  }
  const std::size_t begin = argument.find_first_not_of('-');
  const std::string bare = begin == std::string::npos ? "" : argument.substr(begin);
  const std::string name = bare.substr(0, bare.find('='));
  if (find_option(values.command(), name) != nullptr) {
    fail(ErrorCode::InvalidArgument, "'{}': options have two dashes, --{}", argument, name);
  }
  values.set(name, "");
}

void declare_options(CLI::App& app, std::string_view command) {
  for (const OptionDecl* option : options_of(command)) {
    const std::string name = fmt::format("--{}", option->name);
    if (option->type == OptionType::Flag) {
      app.add_flag(name)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      // OptionValues refuses an option that is given twice.
      app.add_option(name)
          ->type_size(1)
          ->expected(static_cast<int>(option->values))
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
  }
}

// --name=value as two words, because the library takes `--name=` for a name whose value comes next,
// and a value however it begins. In the library's order: the last word first.
std::vector<std::string> separate_values(std::string_view command, int argc,
                                         const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    const OptionDecl* option =
        word.starts_with("--") ? find_option(command, word.substr(0, equals).substr(2)) : nullptr;
    const bool joined = equals != std::string_view::npos;
    if (option == nullptr || (option->type == OptionType::Flag && !joined)) {
      words.emplace_back(word);
      continue;
    }
    check(option->type != OptionType::Flag, ErrorCode::InvalidArgument,
          "--{} does not take a value", option->name);
    check(joined || i + 1 < argc, ErrorCode::InvalidArgument, "--{} needs a value: {}",
          option->name, option->help);
    words.push_back(fmt::format("--{}", option->name));
    words.emplace_back(joined ? word.substr(equals + 1) : std::string_view(argv[++i]));
    for (std::size_t more = 1; more < option->values; ++more) {
      check(i + 1 < argc, ErrorCode::InvalidArgument, "--{} needs {} values: {}", option->name,
            option->values, option->help);
      words.emplace_back(argv[++i]);
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

OptionValues values_of(const CLI::App& app, std::string_view command) {
  OptionValues values(command);
  for (const std::string& extra : app.remaining()) {
    take_extra(values, extra);
  }
  for (const OptionDecl* option : options_of(command)) {
    const std::vector<std::string>& given =
        app.get_option(fmt::format("--{}", option->name))->results();
    for (const std::string& value : given) {
      values.set(option->name, value);
    }
  }
  values.check_complete();
  return values;
}

Request parse_command(std::string_view command, int argc, const char* const* argv) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag("-h,--help");
  declare_options(app, command);
  std::vector<std::string> words = separate_values(command, argc, argv);
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return {.options = std::nullopt, .text = command_help(command)};
  } catch (const CLI::ParseError& e) {
    fail(ErrorCode::InvalidArgument, "{}: {}", command, e.what());
  }
  return {.options = values_of(app, command), .text = ""};
}

}  // namespace

Request parse_arguments(int argc, const char* const* argv) {
  if (argc < 2) {
    fail(ErrorCode::InvalidArgument, "no command given; see 'difflet --help'");
  }
  const std::string_view first = argv[1];
  if (first == "--help" || first == "-h" || first == "help") {
    return {.options = std::nullopt, .text = general_help()};
  }
  if (first == "--version") {
    return {.options = std::nullopt, .text = version_line()};
  }
  const std::string_view second = argc > 2 ? argv[2] : "";
  const std::string both = fmt::format("{} {}", first, second);
  for (const CommandDecl& command : commands()) {
    const bool two_words = command.name.find(' ') != std::string_view::npos;
    if (command.name == (two_words ? std::string_view(both) : first)) {
      const int skipped = two_words ? 2 : 1;
      return parse_command(command.name, argc - skipped, argv + skipped);
    }
  }
  std::vector<std::string_view> verbs;
  for (const CommandDecl& command : commands()) {
    if (command.name.starts_with(fmt::format("{} ", first))) {
      verbs.push_back(command.name.substr(first.size() + 1));
    }
  }
  if (!verbs.empty() && argc > 2 && (second == "--help" || second == "-h")) {
    return {.options = std::nullopt, .text = family_help(first)};
  }
  check(verbs.empty() || argc > 2, ErrorCode::InvalidArgument, "{} needs one of the verbs {}",
        first, fmt::join(verbs, ", "));
  refuse_command(verbs.empty() ? first : std::string_view(both));
}

}  // namespace difflet::cli
