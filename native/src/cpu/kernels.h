// The inner loops, one table per instruction set. Each works on one row or one tile and on one thread.
#pragma once

#include <cstdint>

#include "primerl/adamw.h"
#include "primerl/isa.h"

namespace primerl {

/**
 * Sums over some logits z of e = exp((z - top) / temperature), where `top` is the largest z. Differences to the largest
 * lose no digits, the logarithm of the whole sum would.
 */
template <class T>
struct LogitSums {
  T top;
  /** of e */
  double total;
  /** of e * (z - top) / temperature */
  double moment;
};

template <class T>
struct Kernels {
  /** elements of one vector */
  int lanes;
  /** largest number of rows of a tile */
  int tileRows;
  /** columns of a full tile: two vectors */
  int tileColumns;

  /**
   * c[r][n] (+)= sum over k of a[k * aStride + r] * b[k * bStride + n], for r < rows <= tileRows and n < columns.
   * b is read up to the next multiple of `lanes` beyond `columns`.
   */
  void (*tile)(int rows, int columns, int64_t K, const T* a, int64_t aStride, const T* b, int64_t bStride, T* c,
               int64_t ldc, bool accumulate);

  /** out[k * rows + r] = source[r * rowStride + k * columnStride] */
  void (*packRows)(int rows, int64_t K, const T* source, int64_t rowStride, int64_t columnStride, T* out);

  /** out[k * width + n] = source[k * rowStride + n * columnStride], 0 for columns <= n < width */
  void (*packColumns)(int columns, int width, int64_t K, const T* source, int64_t rowStride, int64_t columnStride,
                      T* out);

  /** y = x * rstd * w; returns rstd = 1 / sqrt(mean(x^2) + eps) */
  T (*rmsNorm)(int64_t n, const T* x, const T* w, T eps, T* y);

  /** dx (+)= the gradient of `rmsNorm` by x */
  void (*rmsNormBackward)(int64_t n, const T* x, const T* w, T rstd, const T* dy, T* dx, bool accumulate);

  /** y = silu(gate) * up */
  void (*swiglu)(int64_t n, const T* gate, const T* up, T* y);

  /** Overwrites gate and up with their gradients. */
  void (*swigluBackward)(int64_t n, T* gate, T* up, const T* dy);

  /** x = softmax(x) */
  void (*softmax)(int64_t n, T* x);

  /** ds = p * (ds - pull) */
  void (*scoreGradient)(int64_t n, T* ds, const T* p, T pull);

  LogitSums<T> (*logitSums)(int64_t n, const T* logits, T inverseTemperature);

  /** z = -scale * exp((z - top) * inverseTemperature - logTotal) */
  void (*logitGradient)(int64_t n, T* z, T inverseTemperature, T top, T logTotal, T scale);

  /** y += x */
  void (*add)(int64_t n, T* y, const T* x);

  /** y += a * x * z */
  void (*addScaledProduct)(int64_t n, T* y, T a, const T* x, const T* z);

  T (*dot)(int64_t n, const T* x, const T* y);

  void (*adamw)(int64_t n, const AdamWStep& step, T* weights, const T* gradients, T* first, T* second);
};

template <class T>
const Kernels<T>& kernels(Isa isa);

const Kernels<float>& scalarKernels();
const Kernels<double>& scalarKernelsDouble();
#if defined(__x86_64__)
const Kernels<float>& avx2Kernels();
const Kernels<float>& avx512Kernels();
#endif

}  // namespace primerl
