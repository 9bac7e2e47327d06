#include "few_rows.h"

#include <algorithm>

#include "cpu/product.h"

namespace primerl {
namespace {

// More rows than this are a prompt's, for which the operands are better cut for the caches.
constexpr int64_t fewRows = 64;

// Below this many multiplications waking other threads costs more than it gains.
constexpr int64_t serialWork = 1 << 18;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

void product(const Compute& compute, int64_t count, const float* x, const PackedMatrix<float>& b, float* y,
             bool accumulate) {
  const int64_t depth = b.depth(), columns = b.columns();
  if (count > fewRows || depth == 0) {
    gemm(compute, count, rows(x, depth), b, y, columns, accumulate);
    return;
  }
  const ProductKernel<float>& kernel = productKernel<float>(compute);
  const int64_t width = kernel.tileColumns, panels = ceilDivide(columns, width);
  // Tiles of nearly equal height: a last one of few rows would cost as much as a full one.
  const int64_t tiles = ceilDivide(count, kernel.tileRows), height = ceilDivide(count, tiles);
  const int64_t leftBytes = kernel.leftBytes(kernel.tileRows, std::min(depth, kernel.depth));
  static thread_local Buffer<char> leftBuffer;
  char* left = leftBuffer.need(ceilDivide(depth, kernel.depth) * tiles * leftBytes);
  const auto leftPanel = [&](int64_t k0, int64_t tile) { return left + (k0 / kernel.depth * tiles + tile) * leftBytes; };
  for (int64_t k0 = 0; k0 < depth; k0 += kernel.depth) {
    for (int64_t tile = 0; tile < tiles; tile++) {
      const int64_t first = tile * height;
      kernel.packLeft(static_cast<int>(std::min(height, count - first)), std::min(kernel.depth, depth - k0),
                      {x + first * depth + k0, depth, 1}, leftPanel(k0, tile));
    }
  }
  const auto columnsOf = [&](int64_t panel) {
    const int64_t n0 = panel * width;
    // in the order in which a packed matrix lies in memory: blocks of depth, panels in each
    for (int64_t k0 = 0; k0 < depth; k0 += kernel.depth) {
      const int64_t k = std::min(kernel.depth, depth - k0);
      const char* right =
          b.data() + k0 / kernel.depth * kernel.rightBytes(kernel.depth) * panels + panel * kernel.rightBytes(k);
      for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t first = tile * height;
        kernel.tile(static_cast<int>(std::min(height, count - first)), static_cast<int>(std::min(width, columns - n0)),
                    k, leftPanel(k0, tile), right, y + first * columns + n0, columns, accumulate || k0 > 0);
      }
    }
  };
  if (count * depth * columns < serialWork) {
    for (int64_t panel = 0; panel < panels; panel++) columnsOf(panel);
  } else {
    compute.pool.parallelTasks(panels, columnsOf);
  }
}

}  // namespace primerl
