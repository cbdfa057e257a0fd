// An artifact and its weights as one tar file: artifact/manifest.json, weights/manifest.json, then the
// files that they list, in that order.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "difflet/artifact/folder.h"
#include "difflet/artifact/manifest.h"

namespace difflet::artifact {

enum class ArchivePart : std::uint8_t { Artifact, Weights };

// Takes the files of an archive while it is checked.
class ArchiveSink {
 public:
  virtual ~ArchiveSink() = default;
  virtual void begin(ArchivePart part, const FileRecord& file) = 0;
  virtual void data(std::span<const std::byte> bytes) = 0;
  // The file is complete and its hash is right.
  virtual void end() = 0;
};

struct ArchiveContents {
  Manifest manifest;
  WeightsManifest weights;
};

// Reads a whole archive. Throws DataLoss, naming the member, for one that is not the next one expected
// (so no name of the archive's own is ever used), not a regular file, or of another size or hash, and
// for anything missing or left over; as the parsers of manifests; Unavailable.
ArchiveContents read_archive(const Fd& file, const std::string& origin, ArchiveSink& sink);
ArchiveContents read_archive(std::span<const std::byte> bytes, const std::string& origin,
                             ArchiveSink& sink);

// Folders hold the files that the manifests list. Throws as writing does.
void write_archive(const Fd& file, const std::string& path, const ArchiveContents& contents,
                   const Folder& artifact, const Folder& weights);

}  // namespace difflet::artifact
