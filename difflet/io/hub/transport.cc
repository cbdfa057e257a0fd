#include "difflet/io/hub/transport.h"

#include <exception>
#include <utility>

#include <curl/curl.h>

#include "difflet/base/error.h"
#include "difflet/io/hub/url.h"

namespace difflet::io::hub {
namespace {

constexpr long kStalled = 100;               // bytes a second that count as none
constexpr long kReceiveBuffer = 512 * 1024;  // bytes that one write callback may get

// Once a process, before any handle; libcurl counts and guards it itself.
void start_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  require(code == CURLE_OK, "libcurl starts");
}

// A list that libcurl reads while a transfer runs.
class HeaderList {
 public:
  explicit HeaderList(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      curl_slist* grown = curl_slist_append(list_, line.c_str());
      require(grown != nullptr, "curl has memory for a header");
      list_ = grown;
    }
  }
  ~HeaderList() { curl_slist_free_all(list_); }
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  curl_slist* get() const noexcept { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

// What the callbacks of one exchange see.
struct Exchange {
  CURL* handle;
  const HttpRequest& request;
  const BodySink& sink;
  const StopRequest& stop;
  HttpResponse response;
  std::exception_ptr thrown;  // C code lies between a callback and perform()

  template <typename F>
  bool guarded(const F& f) noexcept {
    try {
      f();
      return true;
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
  void take_body(std::span<const std::byte> bytes) {
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &response.status);
    const bool good = response.status / 100 == 2;
    if (good && sink) {
      sink(response, bytes);
      return;
    }
    const std::size_t room =
        request.body_limit - std::min(request.body_limit, response.body.size());
    check(!good || bytes.size() <= room, ErrorCode::DataLoss,
          "{}: the answer is larger than the {} bytes allowed for it", request.url,
          request.body_limit);
    response.body.append(reinterpret_cast<const char*>(bytes.data()), std::min(room, bytes.size()));
  }
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const auto bytes = std::as_bytes(std::span(data, size * count));
  return exchange.guarded([&] { exchange.take_body(bytes); }) ? bytes.size() : 0;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line(data, size * count);
  return exchange.guarded([&] { exchange.response.headers.add_line(line); }) ? line.size() : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& exchange = *static_cast<Exchange*>(user);
  return exchange.guarded([&] {
    if (exchange.stop && exchange.stop()) {
      fail(ErrorCode::Cancelled, "stopped");
    }
  })
             ? 0
             : 1;
}

template <typename Value>
void set(CURL* handle, CURLoption option, Value value) {
  require(curl_easy_setopt(handle, option, value) == CURLE_OK, "libcurl takes an option");
}

}  // namespace

struct Transport::Impl {
  Impl(const HubOptions& o, StopRequest s) : options(o), stop(std::move(s)) {
    start_curl();
    handle = curl_easy_init();
    require(handle != nullptr, "libcurl has memory for a connection");
  }
  ~Impl() { curl_easy_cleanup(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void prepare(const HttpRequest& request, const HeaderList& headers, Exchange& exchange);

  const HubOptions options;
  const StopRequest stop;
  CURL* handle = nullptr;
};

void Transport::Impl::prepare(const HttpRequest& request, const HeaderList& headers,
                              Exchange& exchange) {
  curl_easy_reset(handle);  // keeps connections
  set(handle, CURLOPT_URL, request.url.c_str());
  set(handle, CURLOPT_NOBODY, request.method == HttpMethod::Head ? 1L : 0L);
  set(handle, CURLOPT_HTTPHEADER, headers.get());
  set(handle, CURLOPT_USERAGENT, options.user_agent.c_str());
  set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  set(handle, CURLOPT_FOLLOWLOCATION, 0L);
  set(handle, CURLOPT_NOSIGNAL, 1L);
  set(handle, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout_s * 1e3));
  set(handle, CURLOPT_LOW_SPEED_LIMIT, kStalled);
  set(handle, CURLOPT_LOW_SPEED_TIME, std::max(1L, static_cast<long>(options.stall_timeout_s)));
  // Set in any case, so that libcurl does not read the environment.
  const bool https = is_https(request.url);
  set(handle, CURLOPT_PROXY, (https ? options.https_proxy : options.http_proxy).c_str());
  set(handle, CURLOPT_NOPROXY, options.no_proxy.c_str());
  set(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (!options.ca_bundle.empty()) {
    set(handle, CURLOPT_CAINFO, options.ca_bundle.c_str());
  }
  set(handle, CURLOPT_WRITEFUNCTION, on_body);
  set(handle, CURLOPT_WRITEDATA, &exchange);
  set(handle, CURLOPT_HEADERFUNCTION, on_header);
  set(handle, CURLOPT_HEADERDATA, &exchange);
  set(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  set(handle, CURLOPT_XFERINFODATA, &exchange);
  set(handle, CURLOPT_NOPROGRESS, 0L);
}

Transport::Transport(const HubOptions& options, StopRequest stop)
    : impl_(std::make_unique<Impl>(options, std::move(stop))) {}
Transport::~Transport() = default;
Transport::Transport(Transport&&) noexcept = default;
Transport& Transport::operator=(Transport&&) noexcept = default;

HttpResponse Transport::perform(const HttpRequest& request, const BodySink& sink) {
  Exchange exchange{.handle = impl_->handle,
                    .request = request,
                    .sink = sink,
                    .stop = impl_->stop,
                    .response = {},
                    .thrown = {}};
  const HeaderList headers(request.headers);
  char message[CURL_ERROR_SIZE] = "";
  impl_->prepare(request, headers, exchange);
  set(impl_->handle, CURLOPT_ERRORBUFFER, &message[0]);
  const CURLcode code = curl_easy_perform(impl_->handle);
  set(impl_->handle, CURLOPT_ERRORBUFFER, static_cast<char*>(nullptr));
  if (exchange.thrown) {
    std::rethrow_exception(exchange.thrown);
  }
  curl_easy_getinfo(impl_->handle, CURLINFO_RESPONSE_CODE, &exchange.response.status);
  check(code != CURLE_SSL_CACERT_BADFILE, ErrorCode::InvalidArgument,
        "the certificates in '{}' cannot be read", impl_->options.ca_bundle.string());
  if (code != CURLE_OK) {
    exchange.response.failure = message[0] != '\0' ? &message[0] : curl_easy_strerror(code);
  }
  return std::move(exchange.response);
}

}  // namespace difflet::io::hub
