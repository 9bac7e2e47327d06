// What every processor runs: 16-byte vectors of the base instruction set (SSE2, NEON).
#include "kernels.h"

#if defined(__aarch64__)
#define PRIMERL_TILE_ROWS 8
#else
#define PRIMERL_TILE_ROWS 4
#endif
#define PRIMERL_VECTOR_BYTES 16

namespace primerl {
namespace base {
#include "vector.inl"
#include "tile.inl"
#include "rows.inl"
}  // namespace base

const Kernels<float>& scalarKernels() {
  static const Kernels<float> table = base::makeKernels<float>();
  return table;
}

const Kernels<double>& scalarKernelsDouble() {
  static const Kernels<double> table = base::makeKernels<double>();
  return table;
}

}  // namespace primerl
