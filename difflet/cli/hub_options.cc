#include "difflet/cli/hub_options.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/version.h"
#include "difflet/io/hub/repo_id.h"
#include "difflet/io/hub/snapshot.h"
#include "difflet/pipelines/needed_components.h"

namespace difflet::cli {
namespace {

namespace fs = std::filesystem;
using io::hub::HubOptions;

// The first of these variables that is set to something.
std::optional<std::string> first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (value != nullptr && value[0] != '\0') {
      return value;
    }
  }
  return std::nullopt;
}

bool is_true(const char* name) {
  std::string value = first_set({name}).value_or("");
  std::ranges::transform(value, value.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// "~" at the beginning is the user's folder.
fs::path expanded(const std::string& path) {
  const auto home = first_set({"HOME"});
  const bool tilde = path == "~" || path.starts_with("~/");
  return tilde && home ? fs::path(*home + path.substr(1)) : fs::path(path);
}

fs::path hub_home() {
  if (const auto home = first_set({"HF_HOME"})) {
    return expanded(*home);
  }
  if (const auto cache = first_set({"XDG_CACHE_HOME"})) {
    return expanded(*cache) / "huggingface";
  }
  const auto home = first_set({"HOME"});
  check(home.has_value(), ErrorCode::InvalidArgument,
        "none of HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and HOME is set: where is the hub's cache?");
  return fs::path(*home) / ".cache" / "huggingface";
}

std::string trimmed(const std::string& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string token() {
  constexpr std::size_t kMaxToken = 4096;
  std::string token;
  if (const auto given = first_set({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})) {
    token = trimmed(*given);
  } else if (!is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    const auto path = first_set({"HF_TOKEN_PATH"});
    const fs::path file = path ? expanded(*path) : hub_home() / "token";
    std::error_code error;
    if (fs::is_regular_file(file, error)) {
      token = trimmed(read_text_file(file, kMaxToken));
    }
  }
  check(std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; }),
        ErrorCode::InvalidArgument,
        "the token of the hub (HF_TOKEN or its file) holds characters "
        "that no token has");
  return token;
}

void set_proxies(HubOptions& options) {
  const auto all = first_set({"all_proxy", "ALL_PROXY"});
  options.https_proxy = first_set({"https_proxy", "HTTPS_PROXY"}).value_or(all.value_or(""));
  options.http_proxy = first_set({"http_proxy", "HTTP_PROXY"}).value_or(all.value_or(""));
  options.no_proxy = first_set({"no_proxy", "NO_PROXY"}).value_or("");
}

}  // namespace

HubOptions hub_options() {
  HubOptions options;
  const auto cache = first_set({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  options.cache = cache ? expanded(*cache) : hub_home() / "hub";
  if (auto endpoint = first_set({"HF_ENDPOINT"})) {
    endpoint->erase(endpoint->find_last_not_of('/') + 1);
    options.endpoint = *endpoint;
  }
  options.token = token();
  options.offline = is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE");
  options.links =
      is_true("HF_HUB_DISABLE_SYMLINKS") ? io::hub::LinkMode::Files : io::hub::LinkMode::Links;
  options.ca_bundle =
      first_set({"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"}).value_or("");
  options.user_agent = fmt::format("difflet/{}", kVersion);
  set_proxies(options);
  return options;
}

io::hub::Wanted wanted_files(const std::string& variant) {
  return {.variant = variant, .components = pipelines::needed_components};
}

fs::path model_folder(const OptionValues& options, std::string_view option) {
  const std::string text = options.text(option);
  std::error_code error;
  const auto name = fs::exists(text, error) ? std::nullopt : io::hub::parse_model_name(text);
  if (!name) {
    return text;
  }
  const HubOptions hub = hub_options();
  const std::string variant =
      find_option(options.command(), "variant") != nullptr ? options.text("variant") : "";
  const auto found = io::hub::find_snapshot(hub, name->id, name->revision, wanted_files(variant));
  check(!found.folder.empty(), ErrorCode::NotFound,
        "'{}' is neither a folder nor complete in the hub's cache '{}' ({}): 'difflet download "
        "{}{}{}' gets it",
        text, hub.cache.string(), found.reason, name->id.text,
        name->revision == "main" ? "" : " --revision " + name->revision,
        variant.empty() ? "" : " --variant " + variant);
  return found.folder;
}

}  // namespace difflet::cli
