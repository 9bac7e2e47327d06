// What every processor runs: 16-byte vectors of the base instruction set (SSE2, NEON).
#include "kernels.h"
#include "product.h"

#if defined(__aarch64__)
#define PRIMERL_TILE_ROWS 8
#else
#define PRIMERL_TILE_ROWS 4
#endif
#define PRIMERL_VECTOR_BYTES 16

namespace primerl {
namespace base {
/**
 * Products summed in one chain of roundings; the chains' sums are added up on their own. It costs a few per cent of
 * speed and halves the error of log-probabilities against one long chain.
 */
static constexpr int64_t chainLength = 16;
#include "vector.inl"
#include "tile.inl"
#include "rounded.inl"
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

const ProductKernel<float>& scalarProduct() {
  static const ProductKernel<float> kernel = base::makeProduct<float>("scalar");
  return kernel;
}

const ProductKernel<float>& scalarRoundedProduct() {
  static const ProductKernel<float> kernel = base::makeRoundedProduct("scalar, rounded");
  return kernel;
}

const ProductKernel<double>& scalarProductDouble() {
  static const ProductKernel<double> kernel = base::makeProduct<double>("scalar");
  return kernel;
}

}  // namespace primerl
