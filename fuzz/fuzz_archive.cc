// A hostile archive: refused, or every file has the name, size and hash that its manifests say.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/fuzz.h"

#include "difflet/artifact/archive.h"

namespace {

using difflet::fuzz::law;

class CountingSink final : public difflet::artifact::ArchiveSink {
 public:
  void begin(difflet::artifact::ArchivePart part,
             const difflet::artifact::FileRecord& file) override {
    law(!open_, "one file at a time");
    law(file.name.find('/') == file.name.npos && !file.name.empty(), "a plain name");
    (void)part;
    open_ = true;
    left_ = file.bytes;
  }
  void data(std::span<const std::byte> bytes) override {
    law(open_ && bytes.size() <= left_, "no more bytes than the manifest says");
    left_ -= bytes.size();
  }
  void end() override {
    law(open_ && left_ == 0, "all bytes");
    open_ = false;
    ++files;
  }

  std::size_t files = 0;

 private:
  bool open_ = false;
  std::uint64_t left_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return difflet::fuzz::refuse_or_accept([&] {
    CountingSink sink;
    const auto contents =
        difflet::artifact::read_archive(std::as_bytes(std::span(data, size)), "input", sink);
    law(sink.files == contents.manifest.programs.size() + contents.weights.files.size(),
        "all files of the manifests");
  });
}
