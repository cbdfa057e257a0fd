// The command line: from arguments to an exit status.
#pragma once

namespace difflet::cli {

// Runs one command. Errors become one line on stderr and the exit status of their kind.
int run(int argc, const char* const* argv);

}  // namespace difflet::cli
