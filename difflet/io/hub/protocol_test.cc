#include "difflet/io/hub/protocol.h"

#include <gtest/gtest.h>

#include "difflet/base/testing.h"
#include "difflet/io/hub/digest.h"
#include "difflet/io/hub/repo_id.h"
#include "difflet/io/hub/selection.h"
#include "difflet/io/hub/url.h"

namespace difflet::io::hub {
namespace {

TEST(HubProtocol, HeadersKeepTheLastAnswer) {
  Headers headers;
  headers.add_line("HTTP/1.1 100 Continue\r\n");
  headers.add_line("ETag: old\r\n");
  headers.add_line("HTTP/2 200\r\n");
  headers.add_line("x-LINKED-size:  12 \r\n");
  headers.add_line("no colon\r\n");
  headers.add_line("\r\n");
  EXPECT_EQ(headers.get("X-Linked-Size"), "12");
  EXPECT_FALSE(headers.has("etag"));
  EXPECT_EQ(headers.get("etag"), "");
}

TEST(HubProtocol, EtagsLoseQuotesAndWeakness) {
  for (const char* etag : {"abc", "\"abc\"", "W/\"abc\"", "  W/abc "}) {
    EXPECT_EQ(plain_etag(etag), "abc");
  }
  EXPECT_TRUE(is_digest(std::string(40, 'a')));
  EXPECT_TRUE(is_digest(std::string(64, '0')));
  for (const std::string& etag :
       {std::string(41, 'a'), std::string(40, 'A'), std::string("../x")}) {
    EXPECT_FALSE(is_digest(etag));
  }
}

TEST(HubProtocol, NextPageIsTheLinkThatSaysSo) {
  EXPECT_EQ(next_link(R"(<https://h/a?x=1,2>; rel="next")"), "https://h/a?x=1,2");
  EXPECT_EQ(next_link(R"(</p>; rel="prev", </n>; title=x; REL=next)"), "/n");
  for (const char* link :
       {"", "<", "</a>", R"(</a>; rel="prev")", "rel=next", R"(</a; rel="next")"}) {
    EXPECT_EQ(next_link(link), std::nullopt) << link;
  }
}

TEST(HubProtocol, RangesAndWaits) {
  const auto range = parse_content_range("bytes 10-99/100");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 10U);
  EXPECT_EQ(range->total, 100U);
  EXPECT_EQ(parse_content_range("bytes 1-2/*")->total, std::nullopt);
  for (const char* text :
       {"", "bytes */5", "bytes 5-4/9", "items 1-2/3", "bytes 1-2/x", "bytes -1-2/3"}) {
    EXPECT_FALSE(parse_content_range(text).has_value()) << text;
  }
  Headers headers;
  EXPECT_EQ(retry_after(headers, 0), std::nullopt);
  headers.add_line("RateLimit: \"api\";r=0;t=55");
  EXPECT_EQ(retry_after(headers, 0), 55);
  headers.add_line("Retry-After: Thu, 01 Jan 1970 00:01:40 GMT");
  EXPECT_EQ(retry_after(headers, 40), 60);
  headers.add_line("Retry-After: 7");
  EXPECT_EQ(retry_after(headers, 0), 7);
}

TEST(HubProtocol, PathsStayInTheirFolder) {
  for (const char* path : {"a", "a/b.json", "a b/\xc3\xa9"}) {
    EXPECT_TRUE(is_plain_path(path)) << path;
  }
  for (const char* path : {"", "/a", "a/", "a//b", "../a", "a/..", "./a", "a\\b", "a\nb"}) {
    EXPECT_FALSE(is_plain_path(path)) << path;
  }
  EXPECT_EQ(percent_encode("a b/\xc3\xa9#?", Slashes::Kept), "a%20b/%C3%A9%23%3F");
  EXPECT_EQ(percent_encode("refs/pr/1", Slashes::Escaped), "refs%2Fpr%2F1");
}

TEST(HubProtocol, TreeGivesTheHashOfTheContent) {
  const auto files = parse_tree(
      R"([{"type": "directory", "oid": "1", "size": 0, "path": "a"},
          {"type": "file", "oid": "g", "size": 3, "path": "a/b", "xetHash": "x"},
          {"type": "file", "oid": "p", "size": 130, "path": "c",
           "lfs": {"oid": "sha256:s", "size": 9, "pointerSize": 130}},
          {"type": "file", "oid": "g", "size": 3, "path": "../d"}])",
      "page");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].etag, "g");
  EXPECT_EQ(files[1].etag, "s");
  EXPECT_EQ(files[1].size, 9U);
  EXPECT_ERROR((void)parse_tree("{}", "page"), ErrorCode::DataLoss, "page: expected a list");
  EXPECT_ERROR((void)parse_tree("[1]", "page"), ErrorCode::DataLoss, "not an object");
  EXPECT_ERROR((void)parse_tree(R"([{"type": "file", "path": "x", "size": -1}])", "page"),
               ErrorCode::DataLoss, "'x' has no size");
  EXPECT_ERROR((void)parse_commit(R"({"sha": "../x"})", "info"), ErrorCode::DataLoss,
               "commit hash");
}

TEST(HubProtocol, RedirectsStayOnTheWeb) {
  EXPECT_EQ(redirect_target("https://h/a/b", "/c?d=1"), "https://h/c?d=1");
  EXPECT_EQ(redirect_target("http://h/a", "https://cdn/x"), "https://cdn/x");
  for (const char* location : {"ftp://h/a", "file:///etc/passwd", "http://["}) {
    EXPECT_ERROR((void)redirect_target("http://h/a", location), ErrorCode::DataLoss, "no http");
  }
  EXPECT_ERROR((void)redirect_target("https://h/a", "http://h/a"), ErrorCode::DataLoss, "https to");
  EXPECT_EQ(origin_of("https://Hub.Example/a"), origin_of("https://hub.example:443/b"));
  EXPECT_NE(origin_of("https://h/a"), origin_of("http://h/a"));
  EXPECT_NE(origin_of("http://h/a"), origin_of("http://h:81/a"));
  EXPECT_NE(origin_of("http://h/a"), origin_of("http://h.evil/a"));
}

TEST(HubProtocol, IdsAndRevisions) {
  EXPECT_EQ(RepoId::parse("black-forest-labs/FLUX.1-dev").folder_name(),
            "models--black-forest-labs--FLUX.1-dev");
  EXPECT_EQ(RepoId::parse("gpt2").folder_name(), "models--gpt2");
  for (const char* id : {"", "a/b/c", "/a", "a/", "a--b/c", "a/..", ".a/b", "a/b.git", "a/b c"}) {
    EXPECT_ERROR((void)RepoId::parse(id), ErrorCode::InvalidArgument, "org/name");
  }
  EXPECT_EQ(parse_model_name("a/b@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_EQ(parse_model_name("a/b")->revision, "main");
  for (const char* name : {"a", "./a", "/a/b", "a/b@", "a/b@../c", "a/b@x..y", "a/b/c"}) {
    EXPECT_FALSE(parse_model_name(name).has_value()) << name;
  }
}

TEST(HubProtocol, DigestsAreThoseOfGitAndSha256) {
  const std::string text = "hello\n";
  const auto hash = [&](std::size_t digits) {
    BlobDigest digest(std::string(digits, '0'), text.size());
    digest.update(std::as_bytes(std::span(text)));
    return digest.hex();
  };
  EXPECT_EQ(hash(40), "ce013625030ba8dba906f756967f9e9ca394464a");
  EXPECT_EQ(hash(64), "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

TEST(HubSelection, OneComponentWithoutAnIndexOfThePipeline) {
  const ReadText none = [](const std::string&) { return std::string("{}"); };
  Selection s =
      select_files({"config.json", "model.safetensors", "pytorch_model.bin"}, {}, none, "x");
  EXPECT_EQ(s.files, (std::vector<std::string>{"config.json", "model.safetensors"}));
  EXPECT_TRUE(s.missing.empty());
  s = select_files({"README.md"}, {}, none, "x");
  EXPECT_EQ(s.missing, std::vector<std::string>{"model_index.json or config.json"});
}

TEST(HubSelection, DamagedDescriptionsAreNamed) {
  const auto select = [](const std::string& text) {
    return select_files(
        {"model_index.json"}, {}, [&](const std::string&) { return text; }, "org/x");
  };
  EXPECT_ERROR((void)select("["), ErrorCode::DataLoss, "org/x: model_index.json");
  EXPECT_ERROR((void)select("{}"), ErrorCode::DataLoss, "_class_name");
  EXPECT_ERROR((void)select(R"({"_class_name": "P", "../a": ["l", "C"]})"), ErrorCode::DataLoss,
               "not the name of a folder");
}

TEST(HubSelection, OnlyComponentsThatThePipelineNeeds) {
  const ReadText read = [](const std::string&) {
    return std::string(
        R"({"_class_name": "P", "vae": ["d", "V"], "safety": ["d", "S"], "sch": ["d", "EScheduler"]})");
  };
  const Wanted wanted{
      .components = [](std::string_view) { return std::vector<std::string>{"vae", "sch"}; }};
  const Selection s = select_files({"model_index.json", "vae/config.json", "vae/model.safetensors",
                                    "safety/config.json", "sch/scheduler_config.json"},
                                   wanted, read, "x");
  EXPECT_EQ(s.files, (std::vector<std::string>{"sch/scheduler_config.json", "vae/config.json",
                                               "vae/model.safetensors", "model_index.json"}));
  EXPECT_TRUE(s.missing.empty());
}

}  // namespace
}  // namespace difflet::io::hub
