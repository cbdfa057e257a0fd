#include "difflet/text/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <cstdint>
#include <exception>

#include "difflet/base/error.h"

namespace difflet::text {
namespace {

// A field of a protobuf message: the value of a varint, or the bytes of the other kinds.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};

// Walks the fields of a message; the library keeps its own parsed copy to itself.
class Message {
 public:
  Message(std::string_view bytes, std::string_view file) : rest_(bytes), file_(file) {}

  // False at the end.
  bool next(Field* field) {
    if (rest_.empty()) {
      return false;
    }
    const std::uint64_t key = varint();
    *field = {.number = key >> 3U, .value = 0, .bytes = {}};
    switch (key & 7U) {
      case 0:
        field->value = varint();
        break;
      case 1:
        field->bytes = take(8);
        break;
      case 2:
        field->bytes = take(varint());
        break;
      case 5:
        field->bytes = take(4);
        break;
      default:
        damaged();
    }
    return true;
  }

 private:
  [[noreturn]] void damaged() const {
    fail(ErrorCode::DataLoss, "{}: not a sentencepiece model: damaged message", file_);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    damaged();
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) {
      damaged();
    }
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  std::string_view rest_;
  std::string_view file_;
};

// Field numbers and values of sentencepiece_model.proto.
constexpr std::uint64_t kPieces = 1;
constexpr std::uint64_t kTrainerSpec = 2;
constexpr std::uint64_t kNormalizerSpec = 3;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kModelType = 3;
constexpr std::uint64_t kCharsmap = 2;
constexpr std::uint64_t kNormalPiece = 1;
constexpr std::uint64_t kControlPiece = 3;
constexpr std::uint64_t kUserDefinedPiece = 4;
constexpr std::uint64_t kUnigram = 1;

// Last field with this number, as protobuf has it.
Field find(std::string_view message, std::uint64_t number, Field absent, std::string_view file) {
  Message fields(message, file);
  for (Field field; fields.next(&field);) {
    if (field.number == number) {
      absent = field;
    }
  }
  return absent;
}

// Beside its status the library lets exceptions of its trie through (a piece without text).
void load(std::string_view bytes, std::string_view file,
          sentencepiece::SentencePieceProcessor* library) {
  std::string reason;
  try {
    const auto status = library->LoadFromSerializedProto({bytes.data(), bytes.size()});
    reason = status.ok() ? "" : status.ToString();
  } catch (const std::exception& e) {
    reason = e.what();
  }
  check(reason.empty(), ErrorCode::DataLoss, "{}: not a sentencepiece model: {}", file, reason);
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, std::string_view file) {
  SentencePieceModel model;
  std::vector<std::uint64_t> types;
  Message fields(bytes, file);
  for (Field field; fields.next(&field);) {
    if (field.number == kPieces) {
      types.push_back(find(field.bytes, kPieceType, {kPieceType, kNormalPiece, {}}, file).value);
    } else if (field.number == kTrainerSpec) {
      const auto type = find(field.bytes, kModelType, {kModelType, kUnigram, {}}, file).value;
      check(type == kUnigram, ErrorCode::Unsupported,
            "{}: sentencepiece model type {}: only unigram models are read", file, type);
    } else if (field.number == kNormalizerSpec) {
      model.charsmap = find(field.bytes, kCharsmap, {kCharsmap, 0, {}}, file).bytes;
    }
  }
  sentencepiece::SentencePieceProcessor library;
  load(bytes, file, &library);
  check(static_cast<std::size_t>(library.GetPieceSize()) == types.size(), ErrorCode::DataLoss,
        "{}: not a sentencepiece model: {} pieces are listed, {} were read", file, types.size(),
        library.GetPieceSize());
  for (std::size_t i = 0; i < types.size(); ++i) {
    const int id = static_cast<int>(i);
    model.pieces.push_back({library.IdToPiece(id), static_cast<double>(library.GetScore(id))});
    if (types[i] == kControlPiece || types[i] == kUserDefinedPiece) {
      AddedToken token;
      token.content = library.IdToPiece(id);
      token.normalized = false;
      token.special = types[i] == kControlPiece;
      model.added.push_back(token);
    }
  }
  return model;
}

}  // namespace difflet::text
