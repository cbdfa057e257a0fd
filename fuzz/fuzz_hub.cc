// What a hub says: headers, pages of a list of files, descriptions that decide what is downloaded.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "fuzz/fuzz.h"

#include "difflet/io/hub/protocol.h"
#include "difflet/io/hub/repo_id.h"
#include "difflet/io/hub/selection.h"
#include "difflet/io/hub/url.h"

namespace {

using namespace difflet::io::hub;  // NOLINT(google-build-using-namespace)

void read_headers(std::string_view text) {
  Headers headers;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    headers.add_line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  (void)plain_etag(headers.get("etag"));
  (void)parse_content_range(headers.get("content-range"));
  (void)retry_after(headers, 1000);
  const auto next = next_link(headers.get("link"));
  for (const std::string& target : {next.value_or(""), std::string(headers.get("location"))}) {
    const std::string url = redirect_target("https://hub.example/a/b", target);
    difflet::fuzz::law(url.starts_with("https://"), "a redirect of https stays https");
  }
}

void read_tree(std::string_view text) {
  std::set<std::string> paths;
  for (const RemoteFile& file : parse_tree(text, "fuzz")) {
    difflet::fuzz::law(is_plain_path(file.path), "a path stays in its folder");
    paths.insert(file.path);
  }
  (void)select_files(paths, {}, [&](const std::string&) { return std::string(text); }, "fuzz");
}

void select(std::string_view text) {
  const std::set<std::string> paths{"model_index.json", "vae/config.json",
                                    "vae/diffusion_pytorch_model.safetensors.index.json", "vae/a",
                                    "b"};
  const Selection selection =
      select_files(paths, {}, [&](const std::string&) { return std::string(text); }, "fuzz");
  for (const std::string& file : selection.files) {
    difflet::fuzz::law(paths.contains(file), "a file of the repository");
  }
}

}  // namespace

// The first byte chooses the reader.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  return difflet::fuzz::refuse_or_accept([&] {
    switch (data[0]) {
      case 'h':
        read_headers(text);
        break;
      case 't':
        read_tree(text);
        break;
      case 's':
        select(text);
        break;
      case 'c':
        (void)parse_commit(text, "fuzz");
        break;
      default:
        (void)parse_model_name(text);
        (void)RepoId::parse(text).folder_name();
    }
  });
}
