#include "difflet/base/json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/file.h"

namespace difflet {
namespace {

constexpr std::size_t kMaxDepth = 200;
constexpr std::size_t kMaxQuoted = 200;  // bytes of input repeated in an error

// Walks the text and tells how far the lexer has read, which the SAX events do not.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& o) const { return at_ == o.at_; }
  bool operator!=(const CountingIterator& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Printable ASCII of at most kMaxQuoted bytes.
std::string quotable(std::string_view text) {
  std::string out(text.substr(0, kMaxQuoted));
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kMaxQuoted ? out + "..." : out;
}

// Builds the value itself: the library's own builder looks each key up from the start of an ordered
// object, which takes minutes for a tokenizer vocabulary.
class Builder {
 public:
  Builder(std::string_view text, std::string_view origin, const char* const* reached)
      : text_(text), origin_(origin), reached_(reached) {}

  bool null() { return add(Json(nullptr)); }
  bool boolean(bool v) { return add(Json(v)); }
  bool number_integer(Json::number_integer_t v) { return add(Json(v)); }
  bool number_unsigned(Json::number_unsigned_t v) { return add(Json(v)); }
  bool number_float(Json::number_float_t v, const std::string&) { return add(Json(v)); }
  bool string(std::string& v) { return add(Json(std::move(v))); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    open(Json::object());
    keys_.emplace_back();
    return true;
  }
  bool end_object() {
    keys_.pop_back();
    stack_.pop_back();
    return true;
  }
  bool start_array(std::size_t) {
    open(Json::array());
    return true;
  }
  bool end_array() {
    stack_.pop_back();
    return true;
  }
  bool key(std::string& k) {
    if (!keys_.back().insert(k).second) {
      refuse(offset(), fmt::format("duplicate key '{}'", quotable(k)));
    }
    key_ = std::move(k);
    return true;
  }
  [[noreturn]] bool parse_error(std::size_t position, const std::string&,
                                const nlohmann::detail::exception& e) {
    // "[json.exception...] parse error at line 1, column 2: what", or without the place.
    std::string_view what = e.what();
    const std::size_t column = what.find("column ");
    const std::size_t skip =
        column == std::string_view::npos ? what.find("] ") : what.find(": ", column);
    what.remove_prefix(skip == std::string_view::npos ? 0 : skip + 2);
    refuse(position, quotable(what));
  }
  [[noreturn]] void refuse(std::size_t position, const std::string& what) const {
    const std::string_view before = text_.substr(0, position == 0 ? 0 : position - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column =
        before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    fail(ErrorCode::DataLoss, "{}:{}:{}: {}", origin_, line, column, what);
  }
  Json take() { return std::move(root_); }

 private:
  // Bytes read so far; the last one belongs to the token of the current event.
  std::size_t offset() const { return static_cast<std::size_t>(*reached_ - text_.data()); }

  Json* place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      auto& items = parent.get_ref<Json::array_t&>();
      items.push_back(std::move(value));
      return &items.back();
    }
    auto& members = static_cast<Json::object_t::Container&>(parent.get_ref<Json::object_t&>());
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  void open(Json value) {
    if (stack_.size() == kMaxDepth) {
      refuse(offset(), fmt::format("nested deeper than {} levels", kMaxDepth));
    }
    stack_.push_back(place(std::move(value)));
  }

  std::string_view text_;
  std::string_view origin_;
  const char* const* reached_;
  Json root_;
  std::vector<Json*> stack_;  // open containers; stable, as a parent grows only after its child
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view origin) {
  const char* const begin = std::to_address(text.begin());
  const char* const end = begin + text.size();
  const char* reached = begin;
  Builder builder(text, origin, &reached);
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    builder.refuse(nul + 1, "NUL byte");  // the lexer would take it for the end
  }
  Json::sax_parse(CountingIterator(begin, &reached), CountingIterator(end, &reached), &builder);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_text_file(path), path.string());
}

}  // namespace difflet
