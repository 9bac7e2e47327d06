// bfloat16 in pairs: an element of a panel is two neighbours in K, and one instruction multiplies both and adds them up.
#include "product.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")
#define PRIMERL_TILE_ROWS 14
#define PRIMERL_VECTOR_BYTES 64

namespace primerl {
namespace avx512bf16 {

/** The error of a sum of products is that of their operands, 2^-8; chains gain nothing. */
static constexpr int64_t chainLength = 1 << 20;

static inline __m512 multiplyAdd(__m512 sum, __m512 left, __m512 right) {
  return _mm512_dpbf16_ps(sum, (__m512bh)left, (__m512bh)right);
}

#define PRIMERL_MULTIPLY_ADD
#include "vector.inl"
#include "tile.inl"

/** 16 pairs of one row. */
static inline __m512 pairsOf(const float* row) {
  return (__m512)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(row + 16), _mm512_loadu_ps(row));
}

/** 16 pairs, each of two rows, in one column. */
static inline __m512 pairsOf(__m512 first, __m512 second) {
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3,
                       18, 2, 17, 1, 16, 0);
  return (__m512)_mm512_permutexvar_epi16(interleave, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/** Packs `count` lines, columns on the right or rows on the left, whose K lies `step` apart and which lie `line` apart. */
template <int full>
static void packPairs(int count, int width, int64_t K, const float* source, int64_t line, int64_t step, float* out) {
  const int64_t pairs = (K + 1) / 2;
  int64_t pair = 0;
  if (line == 1) {
    for (; pair < pairs; pair++) {
      const float* from = source + 2 * pair * step;
      const bool both = 2 * pair + 1 < K;
      for (int n = 0; n < width; n += 16) {
        const int lanes = count - n < 16 ? (count - n < 0 ? 0 : count - n) : 16;
        const __mmask16 mask = static_cast<__mmask16>((1u << lanes) - 1);
        const __m512 first = _mm512_maskz_loadu_ps(mask, from + n);
        const __m512 second = both ? _mm512_maskz_loadu_ps(mask, from + step + n) : _mm512_setzero_ps();
        const int room = width - n < 16 ? width - n : 16;
        _mm512_mask_storeu_ps(out + pair * width + n, static_cast<__mmask16>((1u << room) - 1),
                              pairsOf(first, second));
      }
    }
    return;
  }
  if (step == 1 && count == full && width == full) {
    constexpr int part = full < 16 ? full : 16;
    for (; 2 * pair + 32 <= K; pair += 16) {
      for (int n = 0; n < full; n += part) {
        V<float> block[16];
#pragma GCC unroll 16
        for (int r = 0; r < 16; r++) block[r] = r < part ? pairsOf(source + (n + r) * line + 2 * pair) : V<float>{};
        transposeFrom<float, 1>(block);
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++) {
          _mm512_mask_storeu_ps(out + (pair + k) * width + n, static_cast<__mmask16>((1u << part) - 1), block[k]);
        }
      }
    }
  }
  for (; pair < pairs; pair++) {
    for (int n = 0; n < width; n++) {
      const float* from = source + n * line + 2 * pair * step;
      const float first = n < count ? from[0] : 0.0f;
      const float second = n < count && 2 * pair + 1 < K ? from[step] : 0.0f;
      const __m128i both = (__m128i)_mm_cvtne2ps_pbh(_mm_set1_ps(second), _mm_set1_ps(first));
      const uint16_t halves[2] = {static_cast<uint16_t>(_mm_extract_epi16(both, 0)),
                                  static_cast<uint16_t>(_mm_extract_epi16(both, 4))};
      std::memcpy(out + pair * width + n, halves, sizeof halves);
    }
  }
}

static int64_t leftBytes(int rows, int64_t K) { return leftPanelBytes<float>(rows, (K + 1) / 2); }
static int64_t rightBytes(int64_t K) { return rightPanelBytes<float>((K + 1) / 2); }

static void packLeft(int rows, int64_t K, View<float> source, void* panel) {
  packPairs<PRIMERL_TILE_ROWS>(rows, rows, K, source.data, source.rowStride, source.columnStride,
                               static_cast<float*>(panel));
}

static void packRight(int columns, int64_t K, View<float> source, void* panel) {
  packPairs<32>(columns, 32, K, source.data, source.columnStride, source.rowStride, static_cast<float*>(panel));
}

static void tilePairs(int rows, int columns, int64_t K, const void* left, const void* right, float* c, int64_t ldc,
                      bool accumulate) {
  tileOfPanels<float>(rows, columns, (K + 1) / 2, left, right, c, ldc, accumulate);
}

}  // namespace avx512bf16

const ProductKernel<float>& avx512bf16Product() {
  namespace own = avx512bf16;
  static const ProductKernel<float> kernel{"avx512bf16",   PRIMERL_TILE_ROWS, 32, 512, own::leftBytes, own::rightBytes,
                                           own::packLeft, own::packRight,    own::tilePairs};
  return kernel;
}

}  // namespace primerl
#endif
