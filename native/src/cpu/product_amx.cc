// bfloat16 by AMX.
#include "product.h"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC target("amx-tile,amx-bf16,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16,avx2,fma")

namespace primerl {
namespace amx {

/** All eight tiles have 16 rows of 64 bytes. */
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64, "the processor reads 64 bytes");
static const TileShapes shapes;

#define PRIMERL_TILE_BEGIN() _tile_loadconfig(&shapes)
#define PRIMERL_TILE_END() _tile_release()
#define PRIMERL_TILE_ZERO(tile) _tile_zero(tile)
#define PRIMERL_TILE_LOAD(tile, from, stride) _tile_loadd(tile, from, stride)
#define PRIMERL_TILE_STORE(tile, to, stride) _tile_stored(tile, to, stride)
#define PRIMERL_TILE_MULTIPLY(sum, left, right) _tile_dpbf16ps(sum, left, right)
#include "amx.inl"

}  // namespace amx

const ProductKernel<float>& amxProduct() {
  static const ProductKernel<float> kernel = amx::makeKernel("amx");
  return kernel;
}

}  // namespace primerl
#endif
