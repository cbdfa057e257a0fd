#include "difflet/cli/app.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <string>

#include "difflet/base/error.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/parse.h"

namespace difflet::cli {
namespace {

struct CommandRow {
  std::string_view name;
  void (*run)(const OptionValues&);
};
constexpr std::array kRunners{
    CommandRow{"generate", run_generate},   CommandRow{"inspect", run_inspect},
    CommandRow{"eval", run_eval},           CommandRow{"tokenize", run_tokenize},
    CommandRow{"reference", run_reference},
};

void run_request(const Request& request) {
  if (!request.options) {
    print(request.text);
    return;
  }
  const auto* row = std::find_if(kRunners.begin(), kRunners.end(), [&](const CommandRow& r) {
    return r.name == request.options->command();
  });
  require(row != kRunners.end(), "a command without a function");
  row->run(*request.options);
}

int report(ErrorCode code, std::string message) {
  // One line whatever a path or a name holds.
  std::replace_if(
      message.begin(), message.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; },
      ' ');
  fmt::print(stderr, "difflet: error: {}\n", message);
  return exit_status(code);
}

}  // namespace

int run(int argc, const char* const* argv) {
  handle_signals();
  try {
    run_request(parse_arguments(argc, argv));
    return 0;
  } catch (const Error& e) {
    return report(e.code(), e.message());
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::ResourceExhausted, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return report(ErrorCode::Unavailable, e.what());
  } catch (const std::exception& e) {
    return report(ErrorCode::Internal, e.what());
  }
}

}  // namespace difflet::cli
