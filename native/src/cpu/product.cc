// Which kernel multiplies, and the one that is made of three products of another.
#include "product.h"

#include <vector>

namespace primerl {

namespace {

const ProductKernel<float>& exactProduct(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512Product();
  if (isa == Isa::avx2) return avx2Product();
#endif
  (void)isa;
  return scalarProduct();
}

const ProductKernel<float>& roundedProduct(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::amx: return amxProduct();
    case Isa::avx512bf16: return avx512bf16Product();
    case Isa::avx512: return avx512RoundedProduct();
    case Isa::avx2: return avx2RoundedProduct();
    case Isa::scalar: break;
  }
#endif
  (void)isa;
  return scalarRoundedProduct();
}

float rounded(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  __builtin_memcpy(&value, &bits, sizeof bits);
  return value;
}

/** `lines` of K numbers as the sum of two bfloat16 numbers each, in two arrays [lines, K]. */
struct Split {
  std::vector<float> large, small;

  void of(int64_t lines, int64_t K, const float* data, int64_t lineStride, int64_t stride) {
    const size_t count = static_cast<size_t>(lines * K);
    if (large.size() < count) {
      large.resize(count);
      small.resize(count);
    }
    for (int64_t line = 0; line < lines; line++) {
      for (int64_t k = 0; k < K; k++) {
        const size_t at = static_cast<size_t>(line * K + k);
        const float value = data[line * lineStride + k * stride];
        large[at] = rounded(value);
        // an infinite or too large number has no small part
        const float rest = value - large[at];
        small[at] = rest - rest == 0 ? rest : 0;
      }
    }
  }
};

thread_local Split split;

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/** Panels are two panels of the base kernel, the large parts and the small parts. */
template <const ProductKernel<float>& (*base)()>
struct SplitKernel {
  static int64_t leftHalf(int rows, int64_t K) { return aligned(base().leftBytes(rows, K)); }
  static int64_t leftBytes(int rows, int64_t K) { return 2 * leftHalf(rows, K); }
  static int64_t rightBytes(int64_t K) { return 2 * base().rightBytes(K); }

  static void packLeft(int count, int64_t K, View<float> source, void* panel) {
    split.of(count, K, source.data, source.rowStride, source.columnStride);
    base().packLeft(count, K, rows(split.large.data(), K), panel);
    base().packLeft(count, K, rows(split.small.data(), K), static_cast<char*>(panel) + leftHalf(count, K));
  }

  static void packRight(int columns, int64_t K, View<float> source, void* panel) {
    split.of(columns, K, source.data, source.columnStride, source.rowStride);
    base().packRight(columns, K, transposed(split.large.data(), K), panel);
    base().packRight(columns, K, transposed(split.small.data(), K), static_cast<char*>(panel) + base().rightBytes(K));
  }

  static void tile(int count, int columns, int64_t K, const void* left, const void* right, float* c, int64_t ldc,
                   bool accumulate) {
    const void* smallLeft = static_cast<const char*>(left) + leftHalf(count, K);
    const void* smallRight = static_cast<const char*>(right) + base().rightBytes(K);
    base().tile(count, columns, K, left, smallRight, c, ldc, accumulate);
    base().tile(count, columns, K, smallLeft, right, c, ldc, true);
    base().tile(count, columns, K, left, right, c, ldc, true);
  }

  static const ProductKernel<float>& kernel() {
    static const ProductKernel<float> made{"three products", base().tileRows, base().tileColumns,
                                           base().depth / 2, leftBytes,       rightBytes,
                                           packLeft,         packRight,       tile};
    return made;
  }
};

}  // namespace

const ProductKernel<float>& splitProduct(Isa isa) {
#if defined(__x86_64__)
  switch (isa) {
    case Isa::amx: return SplitKernel<amxProduct>::kernel();
    case Isa::avx512bf16: return SplitKernel<avx512bf16Product>::kernel();
    case Isa::avx512: return SplitKernel<avx512RoundedProduct>::kernel();
    case Isa::avx2: return SplitKernel<avx2RoundedProduct>::kernel();
    case Isa::scalar: break;
  }
#endif
  (void)isa;
  return SplitKernel<scalarRoundedProduct>::kernel();
}

template <>
const ProductKernel<double>& productKernel<double>(const Compute&) {
  return scalarProductDouble();
}

template <>
const ProductKernel<float>& productKernel<float>(const Compute& compute) {
  switch (compute.precision) {
    case Precision::bfloat16: return roundedProduct(compute.isa);
    case Precision::bfloat16x3: return splitProduct(compute.isa);
    case Precision::float32: break;
  }
  return exactProduct(compute.isa);
}

}  // namespace primerl
