#include "paged_attention.h"

#include <algorithm>
#include <cmath>

namespace primerl {
namespace {

// Values are added up in pieces as long as the chains of a product, so that the sums are those of one long product.
constexpr int64_t valueChain = 16;

}  // namespace

void pagedAttention(const KvCache::State& cache, int64_t stream, int rows, const PagedQuery* queries,
                    Buffer<float>& scratch) {
  const KvShape& shape = cache.memory->shape();
  const Kernels<float>& kernel = shape.kernel;
  const int64_t headDim = shape.headDim, width = shape.width, panel = kernel.tileColumns;
  int64_t longest = 0;
  for (int r = 0; r < rows; r++) longest = std::max(longest, queries[r].length);
  float* packed = scratch.need(rows * (headDim + width + 2 * longest));
  float* result = packed + rows * headDim;
  float* scores = result + rows * width;
  float* weights = scores + rows * longest;

  const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(headDim)));
  for (int r = 0; r < rows; r++) {
    for (int64_t i = 0; i < headDim; i++) packed[i * rows + r] = queries[r].query[i] * scale;
  }
  for (int64_t at = 0; at < longest; at += panel) {
    const float* keys = cache.blocks[static_cast<size_t>(at / blockTokens)]->keys(stream) + at % blockTokens * headDim;
    kernel.tile(rows, static_cast<int>(std::min(panel, longest - at)), headDim, packed, rows, keys, panel, scores + at,
                longest, false);
  }
  for (int r = 0; r < rows; r++) {
    float* row = scores + r * longest;
    kernel.softmax(queries[r].length, row);
    std::fill(row + queries[r].length, row + longest, 0.0f);
  }
  kernel.packRows(rows, longest, scores, longest, 1, weights);
  for (int64_t at = 0; at < longest; at += valueChain) {
    const float* values = cache.blocks[static_cast<size_t>(at / blockTokens)]->values(stream) + at % blockTokens * width;
    for (int64_t n = 0; n < width; n += panel) {
      kernel.tile(rows, static_cast<int>(std::min(panel, width - n)), std::min(valueChain, longest - at),
                  weights + at * rows, rows, values + n, width, result + n, width, at > 0);
    }
  }
  for (int r = 0; r < rows; r++) std::copy_n(result + r * width, headDim, queries[r].out);
}

void storeToken(const KvCache::State& cache, int64_t stream, int64_t place, const float* key, const float* value) {
  const KvShape& shape = cache.memory->shape();
  const int64_t panel = shape.kernel.tileColumns, within = place % blockTokens;
  KvBlock& block = *cache.blocks[static_cast<size_t>(place / blockTokens)];
  float* keys = block.keys(stream) + within / panel * panel * shape.headDim + within % panel;
  for (int64_t i = 0; i < shape.headDim; i++) keys[i * panel] = key[i];
  float* row = block.values(stream) + within * shape.width;
  std::copy_n(value, shape.headDim, row);
  std::fill(row + shape.headDim, row + shape.width, 0.0f);
}

}  // namespace primerl
