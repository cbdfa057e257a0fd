#include "difflet/artifact/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet::artifact {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20U;
constexpr const char* kArtifactManifest = "artifact/manifest.json";
constexpr const char* kWeightsManifest = "weights/manifest.json";
constexpr int kMode = 0644;

struct FreeReader {
  void operator()(struct archive* a) const { archive_read_free(a); }
};
struct FreeWriter {
  void operator()(struct archive* a) const { archive_write_free(a); }
};
struct FreeEntry {
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};

class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)), archive_(archive_read_new()) {
    require(archive_ != nullptr && archive_read_support_format_tar(archive_.get()) == ARCHIVE_OK,
            "tar can be read");
  }
  void open(const Fd& file) {
    check_call(archive_read_open_fd(archive_.get(), file.get(), kBlock));
  }
  void open(std::span<const std::byte> bytes) {
    check_call(archive_read_open_memory(archive_.get(), bytes.data(), bytes.size()));
  }

  // The next member, which must be a regular file of this name. Gives its size.
  std::uint64_t next(const std::string& name) {
    name_ = name;
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(archive_.get(), &entry);
    check(status != ARCHIVE_EOF, ErrorCode::DataLoss, "{}: '{}' is missing", origin_, name);
    check_call(status);
    const char* const found = archive_entry_pathname(entry);
    check(found != nullptr && name == found, ErrorCode::DataLoss,
          "{}: a member that is not '{}', which comes next", origin_, name);
    const bool plain =
        archive_entry_filetype(entry) == AE_IFREG && archive_entry_hardlink(entry) == nullptr &&
        archive_entry_symlink(entry) == nullptr && archive_entry_sparse_count(entry) == 0;
    check(plain && archive_entry_size_is_set(entry) != 0 && archive_entry_size(entry) >= 0,
          ErrorCode::DataLoss, "{}: '{}' is not a regular file", origin_, name);
    return static_cast<std::uint64_t>(archive_entry_size(entry));
  }
  // Up to out.size() bytes of the member; 0 at its end.
  std::size_t read(std::span<std::byte> out) {
    const la_ssize_t n = archive_read_data(archive_.get(), out.data(), out.size());
    check(n >= 0, ErrorCode::DataLoss, "{}: '{}' is damaged or truncated: {}", origin_, name_,
          message());
    return static_cast<std::size_t>(n);
  }
  void expect_end() {
    archive_entry* entry = nullptr;
    check(archive_read_next_header(archive_.get(), &entry) == ARCHIVE_EOF, ErrorCode::DataLoss,
          "{}: more members than its manifests list", origin_);
  }
  const std::string& origin() const { return origin_; }

 private:
  void check_call(int status) {
    check(status == ARCHIVE_OK || status == ARCHIVE_WARN, ErrorCode::DataLoss,
          "{}: not an archive of an artifact: {}", origin_, message());
  }
  std::string message() {
    const char* const text = archive_error_string(archive_.get());
    return text != nullptr ? text : "unknown";
  }

  std::string origin_;
  std::string name_;
  std::unique_ptr<struct archive, FreeReader> archive_;
};

std::string read_member(Reader& reader, const std::string& name) {
  const std::uint64_t size = reader.next(name);
  check(size <= kMaxManifestBytes, ErrorCode::DataLoss, "{}: '{}' has {} bytes, too many",
        reader.origin(), name, size);
  std::string text;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min<std::uint64_t>(size + 1, kBlock)));
  while (const std::size_t n = reader.read(block)) {
    text.append(reinterpret_cast<const char*>(block.data()), n);
    check(text.size() <= size, ErrorCode::DataLoss, "{}: '{}' is longer than it says",
          reader.origin(), name);
  }
  return text;
}

std::string member_name(ArchivePart part, const FileRecord& file) {
  return (part == ArchivePart::Artifact ? "artifact/" : "weights/") + file.name;
}

void read_file(Reader& reader, ArchivePart part, const FileRecord& file, ArchiveSink& sink) {
  const std::string name = member_name(part, file);
  const std::uint64_t size = reader.next(name);
  check(size == file.bytes, ErrorCode::DataLoss, "{}: '{}' has {} bytes, its manifest says {}",
        reader.origin(), name, size, file.bytes);
  sink.begin(part, file);
  Sha256 hash;
  std::uint64_t got = 0;
  std::vector<std::byte> block(static_cast<std::size_t>(std::min<std::uint64_t>(size + 1, kBlock)));
  while (const std::size_t n = reader.read(block)) {
    got += n;
    check(got <= size, ErrorCode::DataLoss, "{}: '{}' is longer than it says", reader.origin(),
          name);
    hash.update(std::span(block).first(n));
    sink.data(std::span(block).first(n));
  }
  check(got == size && hash.hex() == file.sha256, ErrorCode::DataLoss,
        "{}: '{}' is damaged: its SHA-256 is not that of the manifest", reader.origin(), name);
  sink.end();
}

bool uses_all(const Manifest& manifest, const WeightsManifest& weights) {
  return std::ranges::all_of(manifest.programs, [&](const ProgramRecord& program) {
    return std::ranges::all_of(program.pieces, [&](const runtime::WeightPiece& piece) {
      const auto found =
          std::ranges::lower_bound(weights.pieces, piece.name, {}, &runtime::WeightPiece::name);
      return found != weights.pieces.end() && *found == piece;
    });
  });
}

ArchiveContents read_all_of(Reader& reader, ArchiveSink& sink) {
  ArchiveContents contents;
  const auto where = [&](const char* name) { return reader.origin() + ": " + name; };
  contents.manifest =
      parse_manifest(read_member(reader, kArtifactManifest), where(kArtifactManifest));
  contents.weights =
      parse_weights_manifest(read_member(reader, kWeightsManifest), where(kWeightsManifest));
  check(contents.weights.base == base_of(contents.manifest.identity) &&
            contents.manifest.weights.key == contents.weights.key &&
            uses_all(contents.manifest, contents.weights),
        ErrorCode::DataLoss, "{}: the weights are not those of the artifact", reader.origin());
  for (const ProgramRecord& program : contents.manifest.programs) {
    read_file(reader, ArchivePart::Artifact, program.file, sink);
  }
  for (const FileRecord& file : contents.weights.files) {
    read_file(reader, ArchivePart::Weights, file, sink);
  }
  reader.expect_end();
  return contents;
}

class Writer {
 public:
  Writer(const Fd& file, std::string path) : path_(std::move(path)), archive_(archive_write_new()) {
    require(archive_ != nullptr &&
                archive_write_set_format_pax_restricted(archive_.get()) == ARCHIVE_OK,
            "tar can be written");
    check_call(archive_write_open_fd(archive_.get(), file.get()));
  }
  void header(const std::string& name, std::uint64_t bytes) {
    const std::unique_ptr<archive_entry, FreeEntry> entry(archive_entry_new());
    require(entry != nullptr, "memory for a tar member");
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), kMode);
    archive_entry_set_mtime(entry.get(), 0, 0);  // the same artifact gives the same archive
    check_call(archive_write_header(archive_.get(), entry.get()));
  }
  void data(std::span<const std::byte> bytes) {
    const la_ssize_t n = archive_write_data(archive_.get(), bytes.data(), bytes.size());
    check_call(n == static_cast<la_ssize_t>(bytes.size()) ? ARCHIVE_OK : ARCHIVE_FATAL);
  }
  void text(const std::string& name, const std::string& text) {
    header(name, text.size());
    data(std::as_bytes(std::span(text)));
  }
  void close() { check_call(archive_write_close(archive_.get())); }

 private:
  void check_call(int status) {
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
      const int error = archive_errno(archive_.get());
      fail_errno("write", path_, error > 0 ? error : EIO);
    }
  }

  std::string path_;
  std::unique_ptr<struct archive, FreeWriter> archive_;
};

void write_member(Writer& writer, ArchivePart part, const FileRecord& file, const Folder& folder) {
  const Fd fd = folder.file(file.name);
  writer.header(member_name(part, file), file.bytes);
  std::vector<std::byte> block(kBlock);
  for (std::uint64_t at = 0; at < file.bytes;) {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, file.bytes - at));
    const std::span<std::byte> part_of_file = std::span(block).first(want);
    read_at(fd, folder.path() / file.name, at, part_of_file);
    writer.data(part_of_file);
    at += want;
  }
}

}  // namespace

ArchiveContents read_archive(const Fd& file, const std::string& origin, ArchiveSink& sink) {
  Reader reader(origin);
  reader.open(file);
  return read_all_of(reader, sink);
}

ArchiveContents read_archive(std::span<const std::byte> bytes, const std::string& origin,
                             ArchiveSink& sink) {
  Reader reader(origin);
  reader.open(bytes);
  return read_all_of(reader, sink);
}

void write_archive(const Fd& file, const std::string& path, const ArchiveContents& contents,
                   const Folder& artifact, const Folder& weights) {
  Writer writer(file, path);
  writer.text(kArtifactManifest, to_text(contents.manifest));
  writer.text(kWeightsManifest, to_text(contents.weights));
  for (const ProgramRecord& program : contents.manifest.programs) {
    write_member(writer, ArchivePart::Artifact, program.file, artifact);
  }
  for (const FileRecord& shard : contents.weights.files) {
    write_member(writer, ArchivePart::Weights, shard, weights);
  }
  writer.close();
}

}  // namespace difflet::artifact
