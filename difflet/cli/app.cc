#include "difflet/cli/app.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <optional>
#include <string>

#include "difflet/base/error.h"
#include "difflet/cli/command.h"
#include "difflet/cli/interrupt.h"
#include "difflet/cli/parse.h"
#include "difflet/cli/progress.h"

namespace difflet::cli {
namespace {

struct CommandRow {
  std::string_view name;
  void (*run)(const OptionValues&);
};
constexpr std::array kRunners{
    CommandRow{"download", run_download},
    CommandRow{"run", run_run},
    CommandRow{"generate", run_generate},
    CommandRow{"inspect", run_inspect},
    CommandRow{"eval", run_eval},
    CommandRow{"tokenize", run_tokenize},
    CommandRow{"compile", run_compile},
    CommandRow{"quantize", run_quantize},
    CommandRow{"verify", run_verify},
    CommandRow{"clean", run_clean},
    CommandRow{"bench run", run_bench_run},
    CommandRow{"bench compare", run_bench_compare},
    CommandRow{"bench worker", run_bench_worker},
    CommandRow{"reference", run_reference},
    CommandRow{"cache ls", run_cache_ls},
    CommandRow{"cache models", run_cache_models},
    CommandRow{"cache lookup", run_cache_lookup},
    CommandRow{"cache explain-key", run_cache_explain_key},
    CommandRow{"cache verify", run_cache_verify},
    CommandRow{"cache rm", run_cache_rm},
    CommandRow{"cache gc", run_cache_gc},
    CommandRow{"cache export", run_cache_export},
    CommandRow{"cache import", run_cache_import},
    CommandRow{"bench roofline", run_bench_roofline},
    CommandRow{"bench model", run_bench_model},
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

// The error that f ends with, if it does.
template <typename F>
std::optional<Error> error_of(const F& f) {
  try {
    f();
    return std::nullopt;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::ResourceExhausted, "out of memory");
  } catch (const std::filesystem::filesystem_error& e) {
    return Error(ErrorCode::Unavailable, e.what());
  } catch (const std::exception& e) {
    return Error(ErrorCode::Internal, e.what());
  }
}

bool sends_events(std::string_view command) {
  return command == "generate" || command == "quantize" || command == "download";
}

// Programs that read events learn of the end on the same stream.
void print_error_event(const Error& error) {
  print_event({{"event", "error"},
               {"code", error_code_name(error.code())},
               {"status", exit_status(error.code())},
               {"message", error.message()}});
}

// One line whatever a path or a name holds.
void print_error(const Error& error) {
  std::string message = error.message();
  std::replace_if(
      message.begin(), message.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; },
      ' ');
  print_message(fmt::format("difflet: error: {}\n", message));
}

}  // namespace

int run(int argc, const char* const* argv) {
  reserve_standard_streams();
  handle_signals();
  std::optional<Request> request;
  const std::optional<Error> error = error_of([&] {
    request = parse_arguments(argc, argv);
    run_request(*request);
  });
  if (!error) {
    return 0;
  }
  print_error(*error);
  if (request && request->options && request->options->flag("json") &&
      sends_events(request->options->command())) {
    (void)error_of([&] { print_error_event(*error); });  // perhaps nobody reads any more
  }
  return exit_status(error->code());
}

}  // namespace difflet::cli
