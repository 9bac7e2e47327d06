#include "kernels.h"
#include "product.h"

#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#define PRIMERL_TILE_ROWS 14
#define PRIMERL_VECTOR_BYTES 64

namespace primerl {
namespace avx512 {
/**
 * Products summed in one chain of roundings; the chains' sums are added up on their own. It costs a few per cent of
 * speed and halves the error of log-probabilities against one long chain.
 */
static constexpr int64_t chainLength = 16;
#include "vector.inl"
#include "tile.inl"
#include "rounded.inl"
#include "rows.inl"
}  // namespace avx512

const Kernels<float>& avx512Kernels() {
  static const Kernels<float> table = avx512::makeKernels<float>();
  return table;
}

const ProductKernel<float>& avx512Product() {
  static const ProductKernel<float> kernel = avx512::makeProduct<float>("avx512");
  return kernel;
}

const ProductKernel<float>& avx512RoundedProduct() {
  static const ProductKernel<float> kernel = avx512::makeRoundedProduct("avx512, rounded");
  return kernel;
}

}  // namespace primerl
#endif
