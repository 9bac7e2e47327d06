#include "kernels.h"
#include "primerl/ops.h"
#include "ranges.h"

namespace primerl {

template <class T>
void rmsNorm(const Compute& compute, int64_t count, int64_t width, const T* x, const T* w, double eps, T* y, T* rstd) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forRows(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) rstd[i] = kernel.rmsNorm(width, x + i * width, w, T(eps), y + i * width);
  });
}

template <class T>
void rmsNormBackward(const Compute& compute, int64_t count, int64_t width, const T* x, const T* w, const T* rstd,
                     const T* dy, T* dx, bool accumulate, T* dw) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  if (dw != nullptr) {
    forColumns(compute, count, width, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; i++) {
        kernel.addScaledProduct(end - begin, dw + begin, rstd[i], dy + i * width + begin, x + i * width + begin);
      }
    });
  }
  if (dx == nullptr) return;
  forRows(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      kernel.rmsNormBackward(width, x + i * width, w, rstd[i], dy + i * width, dx + i * width, accumulate);
    }
  });
}

#define PRIMERL_NORM(T)                                                                                     \
  template void rmsNorm<T>(const Compute&, int64_t, int64_t, const T*, const T*, double, T*, T*);           \
  template void rmsNormBackward<T>(const Compute&, int64_t, int64_t, const T*, const T*, const T*, const T*, \
                                   T*, bool, T*);

PRIMERL_NORM(float)
PRIMERL_NORM(double)
#undef PRIMERL_NORM

}  // namespace primerl
