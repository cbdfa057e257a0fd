// Brings one file of a repository into the cache's blobs.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "difflet/io/hub/cache.h"
#include "difflet/io/hub/client.h"

namespace difflet::io::hub {

struct BlobRequest {
  RepoId id;
  std::string commit;
  std::string path;
  std::string etag;        // as the list of files has it
  std::uint64_t size = 0;  // bytes
};

// Downloads, resumes or finds the blob and returns its ETag, which may be another than that of the
// request where the server's answer to the file itself says so. Bytes are hashed as they come; the
// blob gets its name when all are there, hashed to the ETag and on the disk. `done` counts the bytes
// that are there, also those of an earlier attempt, and goes back when they turn out to be wrong.
// Throws what Client and RepoCache throw, and DataLoss for bytes that are not those of the ETag.
std::string fetch_blob(Client& client, const RepoCache& cache, const BlobRequest& request,
                       std::atomic<std::uint64_t>& done);

}  // namespace difflet::io::hub
