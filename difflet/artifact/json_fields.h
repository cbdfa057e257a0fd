// Strict reading of JSON objects: every member is asked for, and no other may be there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "difflet/base/error.h"
#include "difflet/base/json.h"
#include "difflet/spmd/mesh.h"
#include "difflet/tensor/dtype.h"
#include "difflet/tensor/shape.h"

namespace difflet::artifact {

// Reads one object. Every refusal is DataLoss and begins with `where`.
class JsonFields {
 public:
  JsonFields(const Json& json, std::string where);

  const Json& at(const std::string& key);  // must be there
  std::string text(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max);
  std::uint64_t bytes(const std::string& key);
  // Lower-case hex of so many digits.
  std::string hex(const std::string& key, std::size_t digits);
  std::map<std::string, std::string> texts(const std::string& key);
  const Json& list(const std::string& key, std::size_t max_size);
  bool has(const std::string& key) const { return json_.contains(key); }
  // Throws for a member that nobody asked for.
  void done() const;

  std::string path(const std::string& key) const { return where_ + "." + key; }
  template <typename... Args>
  void expect(bool ok, const std::string& key, fmt::format_string<Args...> format,
              Args&&... args) const {
    if (!ok) {
      fail(ErrorCode::DataLoss, "{}: {}", path(key),
           fmt::format(format, std::forward<Args>(args)...));
    }
  }

 private:
  const Json& json_;
  std::string where_;
  std::vector<std::string> taken_;
};

// An integer in [min, max], else DataLoss beginning with `where`.
std::int64_t json_integer(const Json& json, const std::string& where, std::int64_t min,
                          std::int64_t max);

// {"dp": 1, "cfg": 1, "cp": 1, "tp": 1}
Json mesh_json(const spmd::Mesh& mesh);
spmd::Mesh read_mesh(const Json& json, const std::string& where);
DType read_dtype(JsonFields& fields, const std::string& key);

}  // namespace difflet::artifact
