#include "difflet/base/error.h"

#include <array>

namespace difflet {
namespace {

struct CodeRow {
  ErrorCode code;
  std::string_view name;
  int exit_status;
};

// The documented table: position = enumerator value. 130 is what shells report after SIGINT, 70 is
// EX_SOFTWARE of sysexits.h; 1 is left to crashes outside our control and 2 is the usual status of a
// wrong command line.
constexpr std::array<CodeRow, 8> kCodes = {{
    {ErrorCode::InvalidArgument, "invalid_argument", 2},
    {ErrorCode::NotFound, "not_found", 3},
    {ErrorCode::Unsupported, "unsupported", 4},
    {ErrorCode::ResourceExhausted, "resource_exhausted", 5},
    {ErrorCode::DataLoss, "data_loss", 6},
    {ErrorCode::Unavailable, "unavailable", 7},
    {ErrorCode::Cancelled, "cancelled", 130},
    {ErrorCode::Internal, "internal", 70},
}};

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < kCodes.size(); ++i) {
    if (kCodes[i].code != static_cast<ErrorCode>(i)) {
      return false;
    }
  }
  return kCodes.back().code == ErrorCode::Internal;
}
static_assert(rows_in_order());

const CodeRow& row(ErrorCode code) noexcept {
  const auto i = static_cast<std::size_t>(code);
  return i < kCodes.size() ? kCodes[i] : kCodes.back();
}

}  // namespace

std::string_view error_code_name(ErrorCode code) noexcept { return row(code).name; }

int exit_status(ErrorCode code) noexcept { return row(code).exit_status; }

void raise(ErrorCode code, std::string message) { throw Error(code, std::move(message)); }

void require(bool ok, const char* what) {
  if (!ok) [[unlikely]] {
    raise(ErrorCode::Internal, fmt::format("internal error: {}", what));
  }
}

}  // namespace difflet
