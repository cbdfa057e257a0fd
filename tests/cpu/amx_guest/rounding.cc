#include <immintrin.h>

#include "cases.h"

namespace difflet::amx_guest {

void run_rounding() {
  const std::uint16_t* p = random_bf16(64, 1);
  __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(p), _mm512_loadu_ps(p + 32));
  put_result("rounding", 1, &both, sizeof both);
  free_all();
}

}  // namespace difflet::amx_guest
