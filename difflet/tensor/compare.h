// How far two tensors are apart.
#pragma once

#include <cstdint>
#include <string>

#include "difflet/tensor/host_tensor.h"

namespace difflet {

struct Difference {
  double max_abs = 0;   // max |a - b|
  double relative = 0;  // ||a - b|| / ||b||, Frobenius
  double cosine = 1;
  double psnr = 0;              // dB against the range max(b) - min(b); inf when equal
  std::int64_t worst = 0;       // flat index of max_abs
  float a = 0, b = 0;           // the two values there
  std::int64_t non_finite = 0;  // entries of a that are NaN or Inf
  std::string str() const;
};

// Throws InvalidArgument when the shapes differ.
Difference compare(const HostTensor& a, const HostTensor& b);

}  // namespace difflet
