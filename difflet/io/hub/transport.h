// One HTTP exchange with libcurl: no redirects, no retries.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "difflet/io/hub/options.h"
#include "difflet/io/hub/protocol.h"

namespace difflet::io::hub {

enum class HttpMethod : std::uint8_t { Get, Head };

struct HttpRequest {
  HttpMethod method = HttpMethod::Get;
  std::string url;
  std::vector<std::string> headers;                // "Name: value"
  std::size_t body_limit = std::size_t{1} << 20U;  // of HttpResponse::body
};

struct HttpResponse {
  long status = 0;
  Headers headers;
  std::string body;     // what no sink took
  std::string failure;  // why the answer did not arrive whole; empty: it did
  bool success() const noexcept { return failure.empty() && status / 100 == 2; }
};

// Takes the bytes of an answer whose status is 2xx, as they come. What it throws ends the exchange and
// is thrown by perform().
using BodySink = std::function<void(const HttpResponse&, std::span<const std::byte>)>;

// A connection that is kept between requests; for one thread.
class Transport {
 public:
  Transport(const HubOptions& options, StopRequest stop);
  ~Transport();
  Transport(Transport&&) noexcept;
  Transport& operator=(Transport&&) noexcept;

  // Network trouble is in HttpResponse::failure. Throws Cancelled when asked to stop, DataLoss when a
  // body outgrows its limit (that of an error is cut instead), InvalidArgument for certificates that
  // cannot be read.
  HttpResponse perform(const HttpRequest& request, const BodySink& sink = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace difflet::io::hub
