#include "kernels.h"
#include "primerl/gemm.h"
#include "primerl/ops.h"
#include "ranges.h"

namespace primerl {

template <class T>
void linear(const Compute& compute, int64_t count, int64_t in, int64_t out, const T* x, const T* w, const T* bias,
            T* y, bool accumulate) {
  gemm(compute, count, out, in, rows(x, in), transposed(w, in), y, out, accumulate);
  if (bias != nullptr) addBias(compute, count, out, bias, y);
}

template <class T>
void biasGradient(const Compute& compute, int64_t count, int64_t width, const T* dy, T* dBias) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forColumns(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; i++) kernel.add(end - begin, dBias + begin, dy + i * width + begin);
  });
}

template <class T>
void linearBackward(const Compute& compute, int64_t count, int64_t in, int64_t out, const T* x, const T* w,
                    const T* dy, T* dx, bool accumulate, T* dw, T* dBias) {
  gemm(compute, out, in, count, transposed(dy, out), rows(x, in), dw, in, true);
  if (dBias != nullptr) biasGradient(compute, count, out, dy, dBias);
  gemm(compute, count, in, out, rows(dy, out), rows(w, in), dx, in, accumulate);
}

#define PRIMERL_LINEAR(T)                                                                                     \
  template void linear<T>(const Compute&, int64_t, int64_t, int64_t, const T*, const T*, const T*, T*,        \
                          bool);                                                                             \
  template void linearBackward<T>(const Compute&, int64_t, int64_t, int64_t, const T*, const T*, const T*, T*, \
                                  bool, T*, T*);                                                              \
  template void biasGradient<T>(const Compute&, int64_t, int64_t, const T*, T*);

PRIMERL_LINEAR(float)
PRIMERL_LINEAR(double)
#undef PRIMERL_LINEAR

}  // namespace primerl
