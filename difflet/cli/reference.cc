#include "difflet/cli/command.h"
#include "difflet/cli/parse.h"

namespace difflet::cli {

void run_reference(const OptionValues& options) {
  print(options.text("page") == "cli" ? cli_page() : errors_page());
}

}  // namespace difflet::cli
