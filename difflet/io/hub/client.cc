#include "difflet/io/hub/client.h"

#include <set>
#include <utility>

#include "difflet/base/error.h"
#include "difflet/io/hub/url.h"

namespace difflet::io::hub {
namespace {

constexpr int kMaxRedirects = 10;
constexpr std::size_t kMaxPages = 1000;
constexpr std::size_t kMaxFiles = 200000;
constexpr std::size_t kMaxPage = std::size_t{32} << 20U;  // bytes of one JSON answer

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// A message of the server, on one line and not too long.
std::string said(const HttpResponse& response) {
  std::string text(response.headers.get("x-error-message"));
  text = text.substr(0, 300);
  for (char& c : text) {
    c = c < ' ' && c >= 0 ? ' ' : c;
  }
  return text.empty() ? "" : fmt::format(" ('{}')", text);
}

}  // namespace

Client::Client(const HubOptions& options, StopRequest stop, Note note)
    : options_(options),
      stop_(std::move(stop)),
      note_(std::move(note)),
      transport_(options_, stop_),
      origin_(origin_of(options_.endpoint)) {
  check_endpoint(options_.endpoint);
}

Client::Answer Client::follow(HttpRequest request, Redirects redirects, const BodySink& sink) {
  const std::vector<std::string> headers = request.headers;
  for (int i = 0; i < kMaxRedirects; ++i) {
    request.headers = headers;
    request.headers.emplace_back("Accept-Encoding: identity");
    if (!options_.token.empty() && origin_of(request.url) == origin_) {
      request.headers.push_back("Authorization: Bearer " + options_.token);
    }
    HttpResponse response = transport_.perform(request, sink);
    const std::string_view location = response.headers.get("location");
    if (!is_redirect(response.status) || location.empty()) {
      return {std::move(response), request.url};
    }
    const std::string target = redirect_target(request.url, std::string(location));
    if (redirects == Redirects::SameOrigin && origin_of(target) != origin_) {
      return {std::move(response), request.url};
    }
    request.url = target;
  }
  fail(ErrorCode::DataLoss, "{}: more than {} redirects", request.url, kMaxRedirects);
}

Client::Answer Client::ask(const RepoId& id, const std::string& revision, const std::string& path,
                           const HttpRequest& request, Redirects redirects) {
  Retry attempts = retry();
  while (true) {
    Answer answer = follow(request, redirects);
    if (answer.response.success() ||
        (is_redirect(answer.response.status) && answer.response.failure.empty())) {
      return answer;
    }
    if (!is_transient(answer.response)) {
      refuse(id, revision, path, answer.response);
    }
    attempts.again(path.empty() ? id.text : fmt::format("{}: {}", id.text, path), answer.response);
  }
}

void Client::refuse(const RepoId& id, const std::string& revision, const std::string& path,
                    const HttpResponse& response) const {
  const std::string_view code = response.headers.get("x-error-code");
  const std::string page = fmt::format("{}/{}", options_.endpoint, id.text);
  const bool token = !options_.token.empty();
  if (code == "GatedRepo") {
    fail(ErrorCode::Unavailable, "'{}' is gated{}: accept its conditions at {} and {}", id.text,
         said(response), page,
         token ? "make sure that HF_TOKEN (or 'hf auth login') is of that account and may read it"
               : "set HF_TOKEN, or log in with 'hf auth login'");
  }
  check(code != "RevisionNotFound", ErrorCode::NotFound,
        "'{}' has no revision '{}': its branches and tags are at {}/tree/main", id.text, revision,
        page);
  check(code != "EntryNotFound", ErrorCode::NotFound, "'{}' has no file '{}' at revision {}",
        id.text, path, revision);
  check(response.status != 401 || !token || code == "RepoNotFound", ErrorCode::Unavailable,
        "the hub refuses the token{}: renew HF_TOKEN, or log in with 'hf auth login'",
        said(response));
  check(code != "RepoNotFound" && response.status != 401 && response.status != 404,
        ErrorCode::NotFound, "no model '{}' at {}: check the id{}", id.text, options_.endpoint,
        token ? "; if it is private, the token must be of an account that may read it"
              : "; if it is private, set HF_TOKEN or log in with 'hf auth login'");
  check(response.status != 403, ErrorCode::Unavailable,
        "the hub forbids reading '{}'{}: the token must have the right to read it", id.text,
        said(response));
  fail(ErrorCode::Unavailable, "{}: the server says {}{}", path.empty() ? id.text : path,
       response.status, said(response));
}

std::string Client::commit_of(const RepoId& id, const std::string& revision) {
  check_revision(revision);
  HttpRequest request{.url = fmt::format("{}/api/models/{}/revision/{}", options_.endpoint, id.text,
                                         percent_encode(revision, Slashes::Escaped))};
  request.body_limit = kMaxPage;
  const Answer answer = ask(id, revision, "", request, Redirects::All);
  return parse_commit(answer.response.body, answer.url);
}

std::vector<RemoteFile> Client::tree(const RepoId& id, const std::string& commit) {
  HttpRequest request{.url = fmt::format("{}/api/models/{}/tree/{}?recursive=true&expand=false",
                                         options_.endpoint, id.text, commit)};
  request.body_limit = kMaxPage;
  std::vector<RemoteFile> files;
  std::set<std::string> seen{request.url};
  while (true) {
    const Answer answer = ask(id, commit, "", request, Redirects::All);
    for (RemoteFile& file : parse_tree(answer.response.body, answer.url)) {
      files.push_back(std::move(file));
    }
    const auto next = next_link(answer.response.headers.get("link"));
    if (!next) {
      return files;
    }
    request.url = redirect_target(answer.url, *next);
    check(seen.insert(request.url).second && seen.size() <= kMaxPages && files.size() <= kMaxFiles,
          ErrorCode::DataLoss, "{}: the list of files does not end", answer.url);
  }
}

std::string Client::file_url(const RepoId& id, const std::string& commit,
                             const std::string& path) const {
  return fmt::format("{}/{}/resolve/{}/{}", options_.endpoint, id.text, commit,
                     percent_encode(path, Slashes::Kept));
}

FileMetadata Client::metadata(const RepoId& id, const std::string& commit,
                              const std::string& path) {
  const HttpRequest request{.method = HttpMethod::Head, .url = file_url(id, commit, path)};
  const auto [response, url] = ask(id, commit, path, request, Redirects::SameOrigin);
  const Headers& headers = response.headers;
  const bool redirect = is_redirect(response.status);
  FileMetadata data{.commit = std::string(headers.get("x-repo-commit")), .location = url};
  data.etag =
      plain_etag(headers.has("x-linked-etag") ? headers.get("x-linked-etag") : headers.get("etag"));
  const auto size = parse_size(headers.has("x-linked-size") ? headers.get("x-linked-size")
                               : redirect                   ? std::string_view()
                                                            : headers.get("content-length"));
  check(is_digest(data.etag), ErrorCode::DataLoss,
        "{}: the ETag '{}' is no hash that the file could be checked with; is {} a hub of models?",
        url, data.etag, options_.endpoint);
  check(size.has_value(), ErrorCode::DataLoss, "{}: the server does not say the size", url);
  check(data.commit.empty() || data.commit == commit, ErrorCode::DataLoss,
        "{}: asked for commit {}, the server has {}", url, commit, data.commit);
  data.size = *size;
  if (redirect) {
    data.location = redirect_target(url, std::string(headers.get("location")));
  }
  return data;
}

std::string Client::read(const RepoId& id, const std::string& commit, const std::string& path,
                         std::size_t limit) {
  HttpRequest request{.url = file_url(id, commit, path)};
  request.body_limit = limit;
  return ask(id, commit, path, request, Redirects::All).response.body;
}

HttpResponse Client::fetch(const std::string& location, std::uint64_t offset,
                           const BodySink& sink) {
  HttpRequest request{.url = location};
  if (offset > 0) {
    request.headers.push_back(fmt::format("Range: bytes={}-", offset));
  }
  return follow(std::move(request), Redirects::All, sink).response;
}

}  // namespace difflet::io::hub
