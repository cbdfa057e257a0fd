// Ctrl-C: signals set a flag that long work looks at.
#pragma once

namespace difflet::cli {

// From now on SIGINT, SIGTERM and SIGHUP only set the flag, a closed pipe or a file at its size
// limit is an error of the write instead of the end of the process, and a mapped file that was made
// shorter ends it with a message.
void handle_signals();
// The signal that asked to stop, or 0.
int stop_signal() noexcept;
// Throws Cancelled when one did.
void check_stop();

}  // namespace difflet::cli
