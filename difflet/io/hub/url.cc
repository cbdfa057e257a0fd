#include "difflet/io/hub/url.h"

#include <algorithm>
#include <memory>

#include <curl/curl.h>

#include "difflet/base/error.h"

namespace difflet::io::hub {
namespace {

constexpr std::size_t kMaxUrl = 16384;

struct Cleanup {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using ParsedUrl = std::unique_ptr<CURLU, Cleanup>;

// Null when it is none.
ParsedUrl parse(const std::string& text) {
  ParsedUrl url(curl_url());
  require(url != nullptr, "curl has memory for a URL");
  const bool ok = text.size() <= kMaxUrl &&
                  curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  return ok ? std::move(url) : nullptr;
}

std::string part(const ParsedUrl& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) {
    return "";
  }
  std::string out = text;
  curl_free(text);
  return out;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

bool is_web(const ParsedUrl& url) {
  const std::string scheme = lower(part(url, CURLUPART_SCHEME));
  return scheme == "http" || scheme == "https";
}

}  // namespace

std::string redirect_target(const std::string& base, const std::string& location) {
  ParsedUrl url = parse(base);
  const bool ok = url != nullptr && location.size() <= kMaxUrl &&
                  curl_url_set(url.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK &&
                  is_web(url);
  check(ok, ErrorCode::DataLoss, "{} redirects to '{}', which is no http address", base,
        location.substr(0, 200));
  std::string target = part(url, CURLUPART_URL);
  check(!is_https(base) || is_https(target), ErrorCode::DataLoss,
        "{} redirects from https to '{}', which is not followed", base, target);
  return target;
}

void check_endpoint(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  check(parsed != nullptr && is_web(parsed) && !part(parsed, CURLUPART_HOST).empty(),
        ErrorCode::InvalidArgument, "HF_ENDPOINT: '{}' is not an http or https address", url);
}

std::string origin_of(const std::string& url) {
  const ParsedUrl parsed = parse(url);
  return parsed == nullptr ? ""
                           : fmt::format("{}://{}:{}", lower(part(parsed, CURLUPART_SCHEME)),
                                         lower(part(parsed, CURLUPART_HOST)),
                                         part(parsed, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

bool is_https(const std::string& url) { return origin_of(url).starts_with("https://"); }

}  // namespace difflet::io::hub
