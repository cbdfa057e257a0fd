#include "difflet/artifact/fingerprint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "difflet/artifact/generation.h"
#include "difflet/artifact/lock.h"
#include "difflet/base/error.h"
#include "difflet/base/file.h"
#include "difflet/base/sha256.h"

namespace difflet::artifact {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunk = std::size_t{16} << 20U;  // of a tensor, hashed by one thread
constexpr std::size_t kHashDigits = 64;
constexpr const char* kConfig = "config.json";

struct Chunk {
  std::size_t tensor = 0;
  std::span<const std::byte> bytes;
  std::array<std::byte, 32> hash{};
};

std::int64_t nanoseconds(const timespec& t) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return std::int64_t{t.tv_sec} * kPerSecond + t.tv_nsec;
}

// The identity of the files as the file system has it, hashed; empty when one changed so lately that
// another change could go unseen.
std::string files_key(const std::set<fs::path>& files) {
  constexpr std::int64_t kSettled = 2'000'000'000;  // ns
  const std::int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  std::vector<std::string> lines;
  for (const fs::path& path : files) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) {
      return "";
    }
    const std::int64_t modified = nanoseconds(info.st_mtim);
    const std::int64_t changed = nanoseconds(info.st_ctim);
    if (std::max(modified, changed) > now - kSettled) {
      return "";
    }
    lines.push_back(
        fmt::format("{} {} {} {} {}\n", info.st_dev, info.st_ino, info.st_size, modified, changed));
  }
  std::ranges::sort(lines);
  Sha256 hash;
  hash.update("difflet fingerprint 1\n");
  std::ranges::for_each(lines, [&](const std::string& line) { hash.update(line); });
  return hash.hex();
}

std::optional<std::string> read_cached(const fs::path& root, const std::string& key) {
  try {
    const StoreRoot store = open_store(root);
    const auto folder = store.folder ? store.folder->child(kFingerprints) : std::nullopt;
    if (folder && !key.empty() && folder->status(key)) {
      const std::string text = folder->read(key, kHashDigits + 1);
      if (text.ends_with('\n') && is_hex(text.substr(0, text.size() - 1), kHashDigits)) {
        return text.substr(0, kHashDigits);
      }
    }
  } catch (const Error&) {
    return std::nullopt;  // it is computed again
  }
  return std::nullopt;
}

void write_cached(const fs::path& root, const std::string& key, const std::string& digest) {
  try {
    const Folder store = make_store(root);
    const Folder folder = store.make(kFingerprints);
    const Staging staging = Staging::make(store);
    staging.folder().write(key, digest + "\n");
    (void)staging.folder().rename(key, folder, key);
  } catch (const Error&) {
    return;  // the next run reads the weights again
  }
}

}  // namespace

std::optional<Source> snapshot_source(const fs::path& folder, const std::string& variant) {
  constexpr std::size_t kRevisionDigits = 40;
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) {
    return std::nullopt;
  }
  const std::vector<fs::path> parts(real.begin(), real.end());
  // The innermost match; "models--ORG--NAME" or, without an organisation, "models--NAME".
  for (std::size_t i = parts.size(); i-- > 2;) {
    const std::string repository = parts[i - 2].string();
    const std::string revision = parts[i].string();
    if (parts[i - 1] != "snapshots" || !is_hex(revision, kRevisionDigits) ||
        !repository.starts_with("models--")) {
      continue;
    }
    std::string id = repository.substr(std::string_view("models--").size());
    if (const std::size_t dashes = id.find("--"); dashes != std::string::npos) {
      id = fmt::format("{}/{}", id.substr(0, dashes), id.substr(dashes + 2));
    }
    fs::path subfolder;
    for (std::size_t j = i + 1; j < parts.size(); ++j) {
      subfolder /= parts[j];
    }
    return Source{.id = std::move(id),
                  .revision = revision,
                  .subfolder = subfolder.generic_string(),
                  .variant = variant,
                  .content = ""};
  }
  return std::nullopt;
}

std::string content_digest(const io::Checkpoint& checkpoint, const Json& config,
                           ThreadPool& threads) {
  const std::vector<std::string> names = checkpoint.names();
  std::vector<std::string> heads;  // what is known of each tensor without its data
  std::vector<std::optional<HostTensor>> tensors;
  std::vector<Chunk> chunks;
  for (const std::string& name : names) {
    const std::size_t index = heads.size();
    try {
      tensors.emplace_back(checkpoint.tensor(name));
      const HostTensor& t = *tensors.back();
      heads.push_back(canonical_text(Json{name, dtype_name(t.dtype()), t.shape().dims()}));
      for (std::size_t at = 0; at < t.bytes().size(); at += kChunk) {
        chunks.push_back(
            {index, t.bytes().subspan(at, std::min(kChunk, t.bytes().size() - at)), {}});
      }
    } catch (const Error& e) {
      check(e.code() == ErrorCode::Unsupported, e.code(), "{}", e.message());
      tensors.emplace_back(std::nullopt);  // no model can read it, so its data decide nothing
      heads.push_back(canonical_text(Json{name, "unsupported"}));
    }
  }
  std::vector<std::atomic<std::size_t>> left(heads.size());  // chunks of each tensor
  for (const Chunk& chunk : chunks) {
    ++left[chunk.tensor];
  }
  threads.run(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t task, int /*thread*/) {
    Chunk& chunk = chunks[static_cast<std::size_t>(task)];
    Sha256 hash;
    hash.update(chunk.bytes);
    chunk.hash = hash.digest();
    if (left[chunk.tensor].fetch_sub(1) == 1) {
      checkpoint.release(names[chunk.tensor]);
    }
  });
  Sha256 all;
  all.update("difflet content 1\n");
  all.update(canonical_text(config));
  std::size_t next = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    all.update("\n" + heads[i]);
    for (; next < chunks.size() && chunks[next].tensor == i; ++next) {
      all.update(chunks[next].hash);
    }
  }
  return all.hex();
}

namespace {

// A folder's weights and config, and the name under which a store keeps their digest: empty for none.
struct Content {
  std::set<fs::path> files;
  bool has_config = false;
  std::string key;
};

Content content_of(const fs::path& folder, const io::Checkpoint& checkpoint,
                   const fs::path& store_root) {
  Content content{.files = {}, .key = ""};
  for (const std::string& name : checkpoint.names()) {
    content.files.insert(checkpoint.file_of(name));
  }
  std::error_code error;
  content.has_config = fs::exists(folder / kConfig, error);
  if (content.has_config) {
    content.files.insert(folder / kConfig);
  }
  content.key = store_root.empty() ? "" : files_key(content.files);
  return content;
}

std::optional<std::string> known_digest(const Content& content, const fs::path& store_root) {
  return content.key.empty() ? std::nullopt : read_cached(store_root, content.key);
}

Source of_content(std::string digest) {
  Source source;
  source.content = std::move(digest);
  return source;
}

}  // namespace

std::optional<Source> known_source(const fs::path& folder, const io::Checkpoint& checkpoint,
                                   const std::string& variant, const fs::path& store_root) {
  if (std::optional<Source> snapshot = snapshot_source(folder, variant)) {
    return snapshot;
  }
  const auto digest = known_digest(content_of(folder, checkpoint, store_root), store_root);
  return digest ? std::optional(of_content(*digest)) : std::nullopt;
}

Source source_of(const fs::path& folder, const std::string& variant, const fs::path& store_root,
                 ThreadPool& threads, FingerprintReport* report) {
  const auto start = std::chrono::steady_clock::now();
  FingerprintReport said{.cached = true};
  Source source;
  if (std::optional<Source> snapshot = snapshot_source(folder, variant)) {
    source = *std::move(snapshot);
  } else {
    const io::Checkpoint checkpoint = io::Checkpoint::open(folder, variant);
    const Content content = content_of(folder, checkpoint, store_root);
    const auto known = known_digest(content, store_root);
    said.cached = known.has_value();
    source = of_content(
        known ? *known
              : content_digest(checkpoint,
                               content.has_config ? read_json_file(folder / kConfig) : Json(),
                               threads));
    // Not under a key that was taken before a change during the reading.
    if (!known && !content.key.empty() && files_key(content.files) == content.key) {
      write_cached(store_root, content.key, source.content);
    }
  }
  said.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (report != nullptr) {
    *report = said;
  }
  return source;
}

}  // namespace difflet::artifact
