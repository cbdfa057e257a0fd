// Spellings of the safetensors format that its reader and its writer share.
#pragma once

#include <string_view>

#include "difflet/tensor/dtype.h"

namespace difflet::io {

inline constexpr const char* kMetadataKey = "__metadata__";
std::string_view file_dtype_name(DType dtype);  // "BF16"

}  // namespace difflet::io
