#include "kernels.h"
#include "primerl/ops.h"
#include "ranges.h"

namespace primerl {

template <class T>
void embedding(const Compute& compute, int64_t count, int64_t width, const int32_t* ids, const T* table, T* y) {
  forRows(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) std::copy_n(table + ids[i] * width, width, y + i * width);
  });
}

template <class T>
void embeddingBackward(const Compute& compute, int64_t count, int64_t width, const int32_t* ids, const T* dy,
                       T* dTable) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forColumns(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; i++) {
      kernel.add(end - begin, dTable + ids[i] * width + begin, dy + i * width + begin);
    }
  });
}

template <class T>
void addBias(const Compute& compute, int64_t count, int64_t width, const T* bias, T* y) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forRows(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) kernel.add(width, y + i * width, bias);
  });
}

template <class T>
void swiglu(const Compute& compute, int64_t count, const T* gate, const T* up, T* y) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forRows(compute, count, 4, [&](int64_t begin, int64_t end) {
    kernel.swiglu(end - begin, gate + begin, up + begin, y + begin);
  });
}

template <class T>
void swigluBackward(const Compute& compute, int64_t count, T* gate, T* up, const T* dy) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forRows(compute, count, 4, [&](int64_t begin, int64_t end) {
    kernel.swigluBackward(end - begin, gate + begin, up + begin, dy + begin);
  });
}

template <class T>
void addTo(const Compute& compute, int64_t count, const T* x, T* y) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  forRows(compute, count, 1, [&](int64_t begin, int64_t end) { kernel.add(end - begin, y + begin, x + begin); });
}

#define PRIMERL_ELEMENTWISE(T)                                                                        \
  template void embedding<T>(const Compute&, int64_t, int64_t, const int32_t*, const T*, T*);         \
  template void embeddingBackward<T>(const Compute&, int64_t, int64_t, const int32_t*, const T*, T*); \
  template void addBias<T>(const Compute&, int64_t, int64_t, const T*, T*);                           \
  template void swiglu<T>(const Compute&, int64_t, const T*, const T*, T*);                           \
  template void swigluBackward<T>(const Compute&, int64_t, T*, T*, const T*);                         \
  template void addTo<T>(const Compute&, int64_t, const T*, T*);

PRIMERL_ELEMENTWISE(float)
PRIMERL_ELEMENTWISE(double)
#undef PRIMERL_ELEMENTWISE

}  // namespace primerl
