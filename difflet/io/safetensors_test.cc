#include "difflet/io/safetensors.h"

#include <array>
#include <cstring>
#include <numeric>

#include <gmock/gmock.h>

#include "difflet/base/testing.h"

namespace difflet::io {
namespace {

using ::testing::ElementsAre;
using testing::TemporaryFolder;

std::string file_bytes(const std::string& header, std::size_t data) {
  std::string out(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(out.data(), &length, sizeof(length));
  return out + header + std::string(data, 'd');
}

std::map<std::string, TensorEntry> parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), "f.safetensors", nullptr);
}

// A file with the header and `data` bytes behind it is refused with DataLoss and this text.
void expect_refused(const std::string& header, std::size_t data, const std::string& part) {
  SCOPED_TRACE(header);
  EXPECT_ERROR(parse(file_bytes(header, data)), ErrorCode::DataLoss, part);
  EXPECT_ERROR(parse(file_bytes(header, data)), ErrorCode::DataLoss, "f.safetensors");
}

constexpr const char* kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST(Safetensors, ParsesEntries) {
  const auto entries = parse(file_bytes(kOne, 8));
  ASSERT_EQ(entries.size(), 1U);
  const TensorEntry& e = entries.at("a");
  EXPECT_EQ(e.dtype, DType::F32);
  EXPECT_EQ(e.shape, Shape{2});
  EXPECT_EQ(e.begin, 8 + std::strlen(kOne));
  EXPECT_EQ(e.end, e.begin + 8);
}

TEST(Safetensors, AcceptsPaddingEmptyTensorsAndScalars) {
  EXPECT_EQ(parse(file_bytes(std::string(kOne) + "   ", 8)).size(), 1U);
  EXPECT_TRUE(parse(file_bytes("{}", 0)).empty());
  const auto entries = parse(file_bytes(R"({
      "e":{"dtype":"F32","shape":[0,7],"data_offsets":[2,2]},
      "s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},
      "z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                                        2));
  EXPECT_EQ(entries.at("e").shape, (Shape{0, 7}));
  EXPECT_EQ(entries.at("s").shape.elements(), 1);
}

TEST(Safetensors, RefusesBadLengths) {
  EXPECT_ERROR(parse(""), ErrorCode::DataLoss, "0 bytes are too few");
  EXPECT_ERROR(parse("1234567"), ErrorCode::DataLoss, "7 bytes are too few");
  EXPECT_ERROR(parse(std::string(8, '\0')), ErrorCode::DataLoss, "does not start");
  EXPECT_ERROR(parse(file_bytes(kOne, 0).substr(0, 20)), ErrorCode::DataLoss,
               "truncated: the header ends at byte 62, the file has 20");
  std::string bytes = file_bytes(kOne, 8);
  for (const std::uint64_t length :
       {std::uint64_t{100'000'001}, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, sizeof(length));
    EXPECT_ERROR(parse(bytes), ErrorCode::DataLoss, "above the limit of 100000000");
  }
}

TEST(Safetensors, RefusesHeadersThatAreNotOurJson) {
  expect_refused("[]", 0, "does not start with '{'");
  expect_refused(" {}", 0, "does not start with '{'");
  expect_refused("\x80\x02}q", 0, "does not start with '{'");
  expect_refused("{", 0, "(header):1:2");
  expect_refused(R"({"a":1})", 0, "'a' is not described by an object");
  expect_refused(R"({"a":{"shape":[],"data_offsets":[0,0]}})", 0, "'a' has no dtype");
  expect_refused(R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", 0, "'a' has no shape");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0]}})", 0, "'a' has no data_offsets");
  expect_refused(R"({"a":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})", 0, "dtype is not");
  expect_refused(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,0]}})", 0, "shape is not");
  expect_refused(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}})", 0, "shape holds");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "shape holds");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}})", 0, "1 entries");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[-4,0]}})", 0,
                 "data_offsets holds");
  expect_refused(R"({"__metadata__":1})", 0, "__metadata__ is not an object");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "__metadata__.a is not a string");
}

TEST(Safetensors, RefusesDuplicateNames) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},
                     "a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                 0, "duplicate key 'a'");
}

TEST(Safetensors, ATruncatedFileNamesTensorAndSizes) {
  expect_refused(kOne, 7, "truncated: tensor 'a' ends at byte 8 of the data, the file has 7");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551607,
                     18446744073709551615]}})",
                 8, "truncated: tensor 'a' ends at byte 18446744073709551615");
}

TEST(Safetensors, RefusesOverlapsHolesAndRests) {
  const auto two = [](int begin_b, int end_b) {
    return fmt::format(R"({{"a":{{"dtype":"F32","shape":[2],"data_offsets":[0,8]}},
                           "b":{{"dtype":"BOOL","shape":[{}],"data_offsets":[{},{}]}}}})",
                       end_b - begin_b, begin_b, end_b);
  };
  EXPECT_EQ(parse(file_bytes(two(8, 10), 10)).size(), 2U);
  expect_refused(two(7, 10), 10, "'a' and 'b' overlap");
  expect_refused(two(0, 8), 8, "'a' and 'b' overlap");
  expect_refused(two(9, 10), 10, "1 bytes of data before tensor 'b'");
  expect_refused(two(8, 10), 13, "3 bytes of data at the end");
  expect_refused("{}", 1, "1 bytes of data at the end");
}

TEST(Safetensors, RefusesSizesThatDoNotMatch) {
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "run backwards");
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
                 "'a' of F32 [3] takes 12 bytes, its data has 8");
  expect_refused(R"({"a":{"dtype":"F64","shape":[3],"data_offsets":[0,8]}})", 8,
                 "'a' of F64 [3] takes 24 bytes, its data has 8");
  // Products that wrap to the right size in 64 bits.
  expect_refused(R"({"a":{"dtype":"BOOL","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                 0, "too large");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})", 8,
                 "too large");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})",
                 0, "'a'");
}

TEST(Safetensors, UnsupportedTensorsAreKeptOutUntilAskedFor) {
  const TemporaryFolder folder;
  const std::string bytes = file_bytes(
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
          "q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[4,6]},
          "r":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[7,11]},
          "x":{"dtype":"NEW9","shape":[2],"data_offsets":[6,7]}})",
      11);
  write_file_atomic(folder / "f.safetensors", std::as_bytes(std::span(bytes)));
  const auto file = SafetensorsFile::open(folder / "f.safetensors");
  EXPECT_EQ(file.entries().size(), 1U);
  EXPECT_EQ(file.unsupported().size(), 3U);
  EXPECT_EQ(file.tensor("a").shape(), Shape{1});
  EXPECT_ERROR(file.tensor("q"), ErrorCode::Unsupported,
               "'q': dtype F8_E4M3 is not one of F32, F16, BF16, I32, I64, BOOL, U8");
  EXPECT_ERROR(file.tensor("x"), ErrorCode::Unsupported, "'x': dtype 'NEW9'");
  EXPECT_ERROR(file.tensor("r"), ErrorCode::Unsupported, "rank 9");
  EXPECT_ERROR(file.tensor("none"), ErrorCode::NotFound, "no tensor 'none'");
}

TEST(Safetensors, OpenNamesWhatItCannotRead) {
  const TemporaryFolder folder;
  EXPECT_ERROR(SafetensorsFile::open(folder / "f"), ErrorCode::NotFound, "/f'");
  EXPECT_ERROR(SafetensorsFile::open(folder.path()), ErrorCode::InvalidArgument, "is a directory");
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryFolder folder;
  const std::array<float, 6> values = {0, 1, 2, 3, 4, -5.5F};
  const std::array<std::int32_t, 2> ints = {7, -8};
  const std::array<std::int32_t, 2> bytes = {7, 255};
  const HostTensor floats = HostTensor::from({2, 3}, values);
  const std::map<std::string, HostTensor> tensors = {
      {"a.bool", HostTensor::from({2}, ints).to(DType::Bool)},
      {"b.bf16", floats.to(DType::BF16)},
      {"c.f16", floats.to(DType::F16)},
      {"d.f32", floats},
      {"e.i32", HostTensor::from({2}, ints)},
      {"f.i64", HostTensor::from({2}, ints).to(DType::I64)},
      {"i.u8", HostTensor::from({2}, bytes).to(DType::U8)},
      {"g.empty", HostTensor(DType::F32, {0, 4})},
      {"h \"é\"", HostTensor(DType::Bool, Shape())},
  };
  write_safetensors(folder / "f.safetensors", tensors, {{"format", "pt"}});
  const auto file = SafetensorsFile::open(folder / "f.safetensors");
  EXPECT_THAT(file.metadata(), ElementsAre(std::pair("format", "pt")));
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const HostTensor t = file.tensor(name);
    EXPECT_EQ(t.dtype(), expected.dtype()) << name;
    EXPECT_EQ(t.shape(), expected.shape()) << name;
    EXPECT_EQ(t.to_floats(), expected.to_floats()) << name;
    EXPECT_EQ(file.entry(name).begin % dtype_bytes(t.dtype()), 0U) << name;
  }
}

TEST(Safetensors, TensorsOutliveTheFileObject) {
  const TemporaryFolder folder;
  const std::array<float, 2> values = {1, 2};
  write_safetensors(folder / "f", {{"a", HostTensor::from({2}, values)}});
  const HostTensor t = SafetensorsFile::open(folder / "f").tensor("a");
  std::filesystem::remove(folder / "f");
  EXPECT_THAT(t.as<float>(), ElementsAre(1, 2));
}

TEST(Safetensors, ReadsUnalignedTensors) {
  const TemporaryFolder folder;
  const std::string bytes = file_bytes(
      R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},
          "b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      5);
  write_file_atomic(folder / "f", std::as_bytes(std::span(bytes)));
  const HostTensor t = SafetensorsFile::open(folder / "f").tensor("b");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.bytes().data()) % alignof(float), 0U);
  EXPECT_EQ(t.bytes()[0], std::byte{'d'});
}

TEST(Safetensors, RefusesToWriteBadNames) {
  const TemporaryFolder folder;
  const HostTensor t(DType::F32, {1});
  EXPECT_ERROR(write_safetensors(folder / "f", {{"\xff", t}}), ErrorCode::InvalidArgument, "UTF-8");
  EXPECT_ERROR(write_safetensors(folder / "f", {{"__metadata__", t}}), ErrorCode::InvalidArgument,
               "__metadata__");
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));
}

}  // namespace
}  // namespace difflet::io
