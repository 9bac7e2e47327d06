#include "kernels.h"
#include "product.h"

#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define PRIMERL_TILE_ROWS 6
#define PRIMERL_VECTOR_BYTES 32

namespace primerl {
namespace avx2 {
/**
 * Products summed in one chain of roundings; the chains' sums are added up on their own. It costs a few per cent of
 * speed and halves the error of log-probabilities against one long chain.
 */
static constexpr int64_t chainLength = 16;
#include "vector.inl"
#include "tile.inl"
#include "rounded.inl"
#include "rows.inl"
}  // namespace avx2

const Kernels<float>& avx2Kernels() {
  static const Kernels<float> table = avx2::makeKernels<float>();
  return table;
}

const ProductKernel<float>& avx2Product() {
  static const ProductKernel<float> kernel = avx2::makeProduct<float>("avx2");
  return kernel;
}

const ProductKernel<float>& avx2RoundedProduct() {
  static const ProductKernel<float> kernel = avx2::makeRoundedProduct("avx2, rounded");
  return kernel;
}

}  // namespace primerl
#endif
