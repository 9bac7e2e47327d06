// The tile instructions of AMX in plain C++, as their description has them (Intel SDM, TDPBF16PS): eight tiles of 16 rows of
// 64 bytes; a product adds, for each pair of neighbours in K, both products in float32.
#pragma once

#include <cstdint>
#include <cstring>

#include "../src/cpu/product.h"

namespace emulated {

using primerl::ProductKernel;
using primerl::View;

struct Tile {
  unsigned char bytes[16][64];
};

inline Tile& tileOf(int index) {
  static thread_local Tile tiles[8];
  return tiles[index];
}

inline void zeroTile(int index) { std::memset(&tileOf(index), 0, sizeof(Tile)); }

inline void loadTile(int index, const void* from, int64_t stride) {
  for (int row = 0; row < 16; row++) {
    std::memcpy(tileOf(index).bytes[row], static_cast<const char*>(from) + row * stride, 64);
  }
}

inline void storeTile(int index, void* to, int64_t stride) {
  for (int row = 0; row < 16; row++) {
    std::memcpy(static_cast<char*>(to) + row * stride, tileOf(index).bytes[row], 64);
  }
}

inline float wide(const Tile& tile, int row, int index) {
  uint16_t half;
  std::memcpy(&half, tile.bytes[row] + 2 * index, sizeof half);
  const uint32_t bits = uint32_t(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void multiplyTiles(int sum, int left, int right) {
  for (int row = 0; row < 16; row++) {
    for (int pair = 0; pair < 16; pair++) {
      for (int column = 0; column < 16; column++) {
        float total;
        std::memcpy(&total, tileOf(sum).bytes[row] + 4 * column, sizeof total);
        total += wide(tileOf(left), row, 2 * pair) * wide(tileOf(right), pair, 2 * column);
        total += wide(tileOf(left), row, 2 * pair + 1) * wide(tileOf(right), pair, 2 * column + 1);
        std::memcpy(tileOf(sum).bytes[row] + 4 * column, &total, sizeof total);
      }
    }
  }
}

#define PRIMERL_TILE_BEGIN() static_cast<void>(0)
#define PRIMERL_TILE_END() static_cast<void>(0)
#define PRIMERL_TILE_ZERO(tile) zeroTile(tile)
#define PRIMERL_TILE_LOAD(tile, from, stride) loadTile(tile, from, stride)
#define PRIMERL_TILE_STORE(tile, to, stride) storeTile(tile, to, stride)
#define PRIMERL_TILE_MULTIPLY(sum, left, right) multiplyTiles(sum, left, right)
#include "../src/cpu/amx.inl"

}  // namespace emulated
