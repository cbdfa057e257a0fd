// The hub's protocol: revisions, file lists, metadata and bytes of model repositories.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "difflet/io/hub/options.h"
#include "difflet/io/hub/protocol.h"
#include "difflet/io/hub/repo_id.h"
#include "difflet/io/hub/retry.h"
#include "difflet/io/hub/transport.h"

namespace difflet::io::hub {

struct FileMetadata {
  std::string commit;      // X-Repo-Commit; empty when the server does not say
  std::string etag;        // X-Linked-Etag, else ETag; without quotes
  std::string location;    // where the bytes are: the hub, or an address signed for a while
  std::uint64_t size = 0;  // bytes; X-Linked-Size, else Content-Length
};

// For one thread. The token goes to the endpoint's own origin only. Every call retries what may pass,
// as the options say, and throws: NotFound (no such repository, revision or file), Unavailable (no
// connection, a gated or private repository, a server that refuses), DataLoss (an answer that is no
// answer of a hub), Cancelled. Messages name the repository and what to do.
class Client {
 public:
  Client(const HubOptions& options, StopRequest stop, Note note);

  std::string commit_of(const RepoId& id, const std::string& revision);
  // All files at that commit.
  std::vector<RemoteFile> tree(const RepoId& id, const std::string& commit);
  FileMetadata metadata(const RepoId& id, const std::string& commit, const std::string& path);
  // The whole content of a small file.
  std::string read(const RepoId& id, const std::string& commit, const std::string& path,
                   std::size_t limit);
  // One attempt at the bytes from `offset` on, redirects followed; a failure is in the response.
  HttpResponse fetch(const std::string& location, std::uint64_t offset, const BodySink& sink);

  Retry retry() const { return {options_, stop_, note_}; }
  const HubOptions& options() const noexcept { return options_; }
  const StopRequest& stop() const noexcept { return stop_; }
  const Note& note() const noexcept { return note_; }

  // Throws the error that an answer of the hub to a request about `path` (may be empty) means.
  [[noreturn]] void refuse(const RepoId& id, const std::string& revision, const std::string& path,
                           const HttpResponse& response) const;

 private:
  enum class Redirects : std::uint8_t { All, SameOrigin };
  struct Answer {
    HttpResponse response;
    std::string url;  // that gave it
  };
  Answer follow(HttpRequest request, Redirects redirects, const BodySink& sink = {});
  Answer ask(const RepoId& id, const std::string& revision, const std::string& path,
             const HttpRequest& request, Redirects redirects);
  std::string file_url(const RepoId& id, const std::string& commit, const std::string& path) const;

  HubOptions options_;
  StopRequest stop_;
  Note note_;
  Transport transport_;
  std::string origin_;  // of the endpoint
};

}  // namespace difflet::io::hub
