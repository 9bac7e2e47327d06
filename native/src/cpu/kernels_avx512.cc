#include "kernels.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#define PRIMERL_TILE_ROWS 14
#define PRIMERL_VECTOR_BYTES 64

namespace primerl {
namespace avx512 {
#include "vector.inl"
#include "tile.inl"
#include "rows.inl"
}  // namespace avx512

const Kernels<float>& avx512Kernels() {
  static const Kernels<float> table = avx512::makeKernels<float>();
  return table;
}

}  // namespace primerl
#endif
