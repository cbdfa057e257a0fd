// Stands in for libFuzzer: runs the target on every file named, and on every file in a folder named.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& path) {
  if (!fs::is_directory(path)) {
    return {path};
  }
  std::vector<fs::path> files;
  for (const auto& item : fs::recursive_directory_iterator(path)) {
    if (item.is_regular_file()) {
      files.push_back(item.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

// An exact-size buffer of its own, so that a sanitizer sees a read past the end.
std::vector<std::uint8_t> read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)), {});
  return {bytes.begin(), bytes.end()};
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    for (const fs::path& file : files_in(argv[i])) {
      std::printf("%s\n", file.c_str());
      std::fflush(stdout);
      const std::vector<std::uint8_t> bytes = read_bytes(file);
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 2;
}
