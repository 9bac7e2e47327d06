#include "kernels.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define PRIMERL_TILE_ROWS 6
#define PRIMERL_VECTOR_BYTES 32

namespace primerl {
namespace avx2 {
#include "vector.inl"
#include "tile.inl"
#include "rows.inl"
}  // namespace avx2

const Kernels<float>& avx2Kernels() {
  static const Kernels<float> table = avx2::makeKernels<float>();
  return table;
}

}  // namespace primerl
#endif
