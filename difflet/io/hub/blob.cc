#include "difflet/io/hub/blob.h"

#include <algorithm>

#include "difflet/base/error.h"
#include "difflet/io/hub/blob_lock.h"
#include "difflet/io/hub/partial_file.h"
#include "difflet/io/hub/url.h"

namespace difflet::io::hub {
namespace {

constexpr std::uint64_t kProgress = 65536;  // bytes for which another attempt is worth it

// Bytes that count as done, and no longer when the download fails or begins anew.
class Counted {
 public:
  explicit Counted(std::atomic<std::uint64_t>& done) : done_(done) {}
  void set(std::uint64_t bytes) noexcept {
    done_ += bytes - counted_;  // modulo 2^64
    counted_ = bytes;
  }

 private:
  std::atomic<std::uint64_t>& done_;
  std::uint64_t counted_ = 0;
};

class BlobDownload {
 public:
  BlobDownload(Client& client, const RepoCache& cache, const BlobRequest& request, Counted& counted,
               PartialFile& file, FileMetadata metadata)
      : client_(client),
        cache_(cache),
        request_(request),
        counted_(counted),
        file_(file),
        metadata_(std::move(metadata)),
        what_(fmt::format("{}: {}", request.id.text, request.path)) {}

  void run() {
    counted_.set(file_.have());
    bool from_earlier = file_.have() > 0;
    while (true) {
      complete();
      if (file_.is_right()) {
        file_.keep(cache_.blob(file_.etag()));
        return;
      }
      if (!from_earlier) {
        file_.remove();
        fail(ErrorCode::DataLoss,
             "{}: the bytes that came do not have the hash of the file, {}; a proxy may have "
             "changed "
             "them: nothing of it is kept, try again",
             what_, file_.etag());
      }
      // Perhaps only what an earlier attempt left is wrong.
      from_earlier = false;
      file_.restart();
      counted_.set(0);
    }
  }

 private:
  // Until all bytes are there.
  void complete() {
    Retry attempts = client_.retry();
    bool fresh = true;  // the address, which may be valid for minutes only
    while (file_.have() < file_.size()) {
      if (!fresh) {
        metadata_.location = client_.metadata(request_.id, request_.commit, request_.path).location;
      }
      fresh = false;
      const std::uint64_t before = file_.have();
      HttpResponse response = attempt();
      if (file_.have() >= before + kProgress) {
        attempts.progressed();
      }
      if (file_.have() == file_.size()) {
        return;
      }
      judge(response, file_.have() > before);
      attempts.again(what_, response);
    }
  }

  HttpResponse attempt() {
    const std::uint64_t offset = file_.have();
    bool first = true;
    return client_.fetch(metadata_.location, offset,
                         [&](const HttpResponse& response, std::span<const std::byte> bytes) {
                           if (first) {
                             check_start(response, offset);
                             first = false;
                           }
                           file_.append(bytes);
                           counted_.set(file_.have());
                         });
  }

  // The server may send the whole file although a part was asked for.
  void check_start(const HttpResponse& response, std::uint64_t offset) {
    if (response.status == 206) {
      const auto range = parse_content_range(response.headers.get("content-range"));
      check(range && range->first == offset && range->total.value_or(file_.size()) == file_.size(),
            ErrorCode::DataLoss, "{}: asked for bytes from {} of {}, the server sends '{}'", what_,
            offset, file_.size(), response.headers.get("content-range"));
    } else if (offset > 0) {
      file_.restart();
      counted_.set(0);
    }
  }

  // Throws for an answer that another attempt would not change; completes the reason of one that it
  // may.
  void judge(HttpResponse& response, bool progress) {
    if (response.status == 416) {
      fail(ErrorCode::DataLoss, "{}: the server has only {} of its {} bytes; try again later",
           what_, file_.have(), file_.size());
    }
    if (response.success()) {
      check(progress || response.status == 206, ErrorCode::DataLoss,
            "{}: the server has only {} of its {} bytes; try again later", what_, file_.have(),
            file_.size());
      response.failure =
          fmt::format("the answer ended after {} of {} bytes", file_.have(), file_.size());
      return;
    }
    // A signed address that is too old is refused too; asking the hub again gives a new one.
    const bool elsewhere = origin_of(metadata_.location) != origin_of(client_.options().endpoint);
    if (response.failure.empty() && !is_transient(response)) {
      if (!elsewhere || refused_) {
        client_.refuse(request_.id, request_.commit, request_.path, response);
      }
      refused_ = true;
      response.failure = fmt::format("the server says {}", response.status);
    }
  }

  Client& client_;
  const RepoCache& cache_;
  const BlobRequest& request_;
  Counted& counted_;
  PartialFile& file_;
  FileMetadata metadata_;
  std::string what_;
  bool refused_ = false;
};

}  // namespace

std::string fetch_blob(Client& client, const RepoCache& cache, const BlobRequest& request,
                       std::atomic<std::uint64_t>& done) {
  Counted counted(done);
  const auto present = [&](const std::string& etag, std::uint64_t size) {
    const bool there = cache.has_blob(etag, size);
    if (there) {
      counted.set(size);
    }
    return there;
  };
  if (present(request.etag, request.size)) {
    return request.etag;
  }
  FileMetadata metadata = client.metadata(request.id, request.commit, request.path);
  const std::string etag = metadata.etag;
  const std::uint64_t size = metadata.size;
  const BlobLock lock(cache.lock(etag), client.stop(), [&] {
    if (client.note()) {
      client.note()(fmt::format("{}: another process downloads it; waiting", request.path));
    }
  });
  if (present(etag, size)) {
    return etag;
  }
  PartialFile file(cache.partial(etag), etag, size, client.stop());
  BlobDownload(client, cache, request, counted, file, std::move(metadata)).run();
  return etag;
}

}  // namespace difflet::io::hub
