// Artifacts as files: export, import, and archives that somebody made with bad intent.
#include <algorithm>

#include "tests/artifact/store_testing.h"

namespace difflet::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;

struct Member {
  std::string name;
  std::string data;
  char type = '0';  // '0' a file, '1' a hard link, '2' a symbolic one, '5' a folder, '6' a pipe
  std::string link = {};   // target
  std::uint64_t said = 0;  // bytes that the header says, if not those of data
};

std::string octal(std::uint64_t value, int digits) { return fmt::format("{:0{}o}", value, digits); }

// A ustar header and the data behind it.
std::string tar_member(const Member& member) {
  std::string header(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, member.name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(member.said != 0 ? member.said : member.data.size(), 11));
  put(136, "00000000000");
  put(148, "        ");
  header[156] = member.type;
  put(157, member.link);
  put(257, "ustar");
  put(263, "00");
  std::uint64_t sum = 0;
  for (const char c : header) {
    sum += static_cast<unsigned char>(c);
  }
  put(148, octal(sum, 6));
  header[154] = '\0';
  const std::size_t padding = (kBlock - member.data.size() % kBlock) % kBlock;
  return header + member.data + std::string(padding, '\0');
}

std::string tar_of(const std::vector<Member>& members) {
  std::string all;
  for (const Member& member : members) {
    all += tar_member(member);
  }
  return all + std::string(2 * kBlock, '\0');
}

std::vector<Member> members_of(const std::string& tar) {
  std::vector<Member> members;
  for (std::size_t at = 0; at + kBlock <= tar.size() && tar[at] != '\0';) {
    const std::size_t size = std::stoul(tar.substr(at + 124, 11), nullptr, 8);
    members.push_back({.name = tar.substr(at, 100).c_str(), .data = tar.substr(at + kBlock, size)});
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return members;
}

class Exchange : public StoreTest {
 protected:
  void SetUp() override {
    EXPECT_EQ(compiled(), Arguments{"compiled"});
    key_ = cache_rows("ls").at(0).at("key").get<std::string>();
    EXPECT_EQ(cache("export", {key_, "--output", tar_.string()}).status, 0);
    good_ = read_bytes(tar_);
    members_ = members_of(good_);
    ASSERT_EQ(members_.size(), 6U);
    right_ = evaluated("require");
    store_ = folder_ / "other";
  }
  // Refused; neither in the store nor beside it is anything left.
  void refused(const std::string& tar, const std::string& what) const {
    write_bytes(tar_, tar);
    const ProcessResult result = cache("import", {tar_.string()});
    EXPECT_EQ(result.status, 6) << what << ": " << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << what << result.err;
    nothing_left(what);
  }
  void nothing_left(const std::string& what) const {
    if (fs::exists(store_)) {
      for (const auto& [name, digest] : contents(store_)) {
        EXPECT_TRUE(digest == "/" || name == "store.json" || name.starts_with("locks/"))
            << what << ": " << name;
      }
    }
    EXPECT_EQ(files_in(folder_.path()).size(), fs::exists(store_) ? 4U : 3U) << what;
  }

  fs::path tar_ = folder_ / "a.tar";
  std::string key_, good_, right_;
  std::vector<Member> members_;
};

TEST_F(Exchange, AnImportedArtifactIsTheSame) {
  const std::vector<Json> rows = cache_rows("import", {tar_.string()});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("key"), key_);
  EXPECT_EQ(evaluated("require"), right_);
  EXPECT_EQ(compiled(), Arguments{"present"});
  EXPECT_EQ(cache("verify").status, 0);
  const auto before = contents(store_);
  EXPECT_EQ(cache_rows("import", {tar_.string()}).at(0).at("generation"), "g000001");
  for (const auto& [name, digest] : contents(store_)) {
    EXPECT_TRUE(name.starts_with("locks/") || before.at(name) == digest) << name;
  }
  // What is exported again is the same file.
  EXPECT_EQ(cache("export", {key_.substr(0, 8), "--output", tar_.string()}).status, 0);
  EXPECT_EQ(read_bytes(tar_) == good_, true);
}

TEST_F(Exchange, APlainTarOfTheSameMembersIsTaken) {
  write_bytes(tar_, tar_of(members_));
  EXPECT_EQ(cache("import", {tar_.string()}).status, 0);
  EXPECT_EQ(evaluated("require"), right_);
}

TEST_F(Exchange, CutArchivesAreRefused) {
  const std::size_t stride = kSanitized ? 40'000 : 15'000;
  for (std::size_t end = 0; end < good_.size() - 12 * kBlock; end += stride) {
    refused(good_.substr(0, end), fmt::format("cut at {}", end));
  }
}

TEST_F(Exchange, FlippedBitsAreRefused) {
  std::size_t at = 0;  // the last byte of data
  for (std::size_t i = 0; i < good_.size(); ++i) {
    at = good_[i] != '\0' ? i : at;
  }
  const std::size_t stride = kSanitized ? 90'001 : 19'001;
  for (; at > 3 * kBlock; at -= std::min(at, stride)) {
    std::string bytes = good_;
    bytes[at] = static_cast<char>(bytes[at] ^ 16);
    write_bytes(tar_, bytes);
    const ProcessResult result = cache("import", {tar_.string()});
    if (result.status == 0) {  // padding, or a field of a header that decides nothing
      EXPECT_EQ(evaluated("require"), right_) << at;
      fs::remove_all(store_);
    } else {
      EXPECT_EQ(result.status, 6) << at << result.err;
      nothing_left(fmt::format("flipped {}", at));
    }
  }
}

TEST_F(Exchange, NamesOfTheArchivesOwnAreRefused) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (const std::string& name :
         {std::string("../x"), folder_.path().string() + "/planted",
          std::string("artifact/../../x"), std::string("/etc/planted"),
          std::string("artifact/manifest.json "), std::string("./") + members_[i].name,
          std::string("store.json"), std::string("")}) {
      auto members = members_;
      members[i].name = name.substr(0, 99);
      refused(tar_of(members), fmt::format("{} as '{}'", members_[i].name, name));
    }
  }
  EXPECT_FALSE(fs::exists("/etc/planted"));
}

TEST_F(Exchange, WhatIsNoFileIsRefused) {
  write_bytes(tar_, "");
  const fs::path canary = folder_ / "store/store.json";
  const std::string before = read_bytes(canary);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (const char type : {'1', '2', '3', '5', '6'}) {
      auto members = members_;
      members[i].type = type;
      members[i].link = canary.string().substr(0, 99);
      members[i].data.clear();
      refused(tar_of(members), fmt::format("{} of type {}", members_[i].name, type));
    }
  }
  EXPECT_EQ(read_bytes(canary), before);
}

TEST_F(Exchange, MembersThatAreMissingOrTooManyAreRefused) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto members = members_;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
    refused(tar_of(members), members_[i].name + " is missing");
    members = members_;
    members.insert(members.begin() + static_cast<std::ptrdiff_t>(i), members_[i]);
    refused(tar_of(members), members_[i].name + " twice");
  }
  auto members = members_;
  std::swap(members[2], members[4]);
  refused(tar_of(members), "another order");
  members = members_;
  members.push_back({"artifact/more", "x"});
  refused(tar_of(members), "one more");
  members = members_;
  members[0].data = members[1].data;
  refused(tar_of(members), "a manifest of the other kind");
  refused("", "empty");
  refused(std::string(10 * kBlock, '\0'), "no members");
  refused("not a tar file at all", "text");
}

TEST_F(Exchange, SizesThatAreNotTrueAreRefused) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    for (const std::uint64_t said : {std::uint64_t{077777777777}, members_[i].data.size() + 1,
                                     members_[i].data.size() - 2, std::uint64_t{1}}) {
      auto members = members_;
      members[i].said = said;
      refused(tar_of(members), fmt::format("{} of {} bytes", members_[i].name, said));
    }
  }
  auto members = members_;
  for (const char* huge : {"4611686018427387904", "99999999999999999999", "-1", "1e30"}) {
    members = members_;
    const std::string bytes = "\"bytes\":";
    const std::size_t at = members[1].data.find(bytes) + bytes.size();
    members[1].data.replace(at, members[1].data.find(',', at) - at, huge);
    refused(tar_of(members), huge);
  }
}

TEST_F(Exchange, OtherPathsAreRefused) {
  expect_refused({"cache", "import", "--cache-dir", store_.string(), folder_.path().string()}, 2,
                 "is not a regular file");
  expect_refused({"cache", "import", "--cache-dir", store_.string(), "/dev/zero"}, 2,
                 "is not a regular file");
  expect_refused({"cache", "import", "--cache-dir", store_.string(), (folder_ / "no").string()}, 3,
                 "no");
  store_ = folder_ / "store";
  expect_refused({"cache", "export", "--cache-dir", store_.string(), "ffff", "--output",
                  (folder_ / "x.tar").string()},
                 3, "ffff");
  expect_refused({"cache", "export", "--cache-dir", store_.string(), key_, "--output",
                  (folder_ / "no/x.tar").string()},
                 3, "no folder");
  expect_refused({"cache", "export", "--cache-dir", store_.string(), key_, "--output",
                  (folder_ / "x.tar").string()},
                 5, "x.tar", {.file_limit = 100'000});
  EXPECT_EQ(files_in(folder_.path()), (Arguments{"a.tar", "out.safetensors", "store"}));
}

// Bytes that were damaged in the store do not get into another one.
TEST_F(Exchange, ADamagedArtifactIsNotImported) {
  store_ = folder_ / "store";
  const fs::path shard = weights_file("tp0_sharded_checkpoint.safetensors");
  flip_bit(shard, fs::file_size(shard) / 2);
  EXPECT_EQ(cache("export", {key_, "--output", tar_.string()}).status, 0);
  store_ = folder_ / "other";
  refused(read_bytes(tar_), "damaged");
}

}  // namespace
}  // namespace difflet::testing
