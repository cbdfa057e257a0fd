// When to ask again, and for how long.
#pragma once

#include <string>

#include "difflet/io/hub/options.h"
#include "difflet/io/hub/transport.h"

namespace difflet::io::hub {

// Network trouble, too many requests, and errors of the server that pass.
bool is_transient(const HttpResponse& response) noexcept;
// Waits, asking about every 50 ms whether to stop; throws Cancelled then.
void wait_seconds(double seconds, const StopRequest& stop);

// Attempts at one thing.
class Retry {
 public:
  Retry(const HubOptions& options, const StopRequest& stop, const Note& note)
      : options_(options), stop_(stop), note_(note) {}

  // After a transient failure: tells it and waits. Throws Unavailable when there were enough attempts
  // or the server asks for a longer wait than is allowed. `what` begins the messages.
  void again(const std::string& what, const HttpResponse& response);
  // Bytes came: attempts count anew.
  void progressed() noexcept { failures_ = 0; }

 private:
  double delay(const HttpResponse& response) const;

  const HubOptions& options_;
  const StopRequest& stop_;
  const Note& note_;
  int failures_ = 0;
};

}  // namespace difflet::io::hub
