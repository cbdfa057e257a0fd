// A hub and a cache for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/base/testing.h"
#include "difflet/io/hub/download.h"

namespace difflet::testing {

inline constexpr const char* kModel = "org/tiny";
// Of the largest file of kModel.
inline constexpr std::size_t kLargeBytes = 300000;

// Runs tests/hub/fake_hub.py with one repository, kModel: a pipeline of a sharded transformer, a
// tokenizer and a scheduler, and files that no pipeline needs.
class HubTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void add_file(const std::string& repo, const std::string& path, const std::string& content) const;
  // What fake_hub.py is to do; see there.
  void set_rules(const Json& rules) const;
  std::vector<Json> log() const;
  // How many requests of the log have that method and this part in their path.
  std::size_t requests(const std::string& method, const std::string& part) const;

  std::string endpoint() const { return fmt::format("http://127.0.0.1:{}", hub_port_); }
  std::string cdn() const { return fmt::format("http://localhost:{}", cdn_port_); }
  std::filesystem::path cache() const { return folder_ / "cache"; }
  std::filesystem::path repo_cache() const { return cache() / "models--org--tiny"; }
  std::filesystem::path served(const std::string& path) const {
    return folder_ / "root" / "repos" / kModel / path;
  }
  // Waits between attempts are short.
  io::hub::HubOptions options() const;

  // Plans and runs; notes are kept in notes_.
  std::filesystem::path download(const io::hub::HubOptions& options,
                                 const std::string& revision = "main",
                                 const std::string& id = kModel);
  // The error that a download ends with; fails when it ends well.
  Error download_error(const io::hub::HubOptions& options, const std::string& revision = "main",
                       const std::string& id = kModel);
  // All that is wanted of kModel is in the folder, byte for byte, and nothing else.
  void expect_complete(const std::filesystem::path& snapshot) const;
  // No blob in the cache is partial or wrong.
  void expect_blobs_right() const;

  TemporaryFolder folder_;
  std::vector<std::string> notes_;
  io::hub::DownloadEvents events_;
  int hub_port_ = 0, cdn_port_ = 0;

 private:
  int process_ = -1;
};

// `size` bytes that do not repeat, other ones for each seed.
std::string noise_text(std::size_t size, unsigned seed);

}  // namespace difflet::testing
