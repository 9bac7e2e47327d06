// Attention of a few query rows over a cache's blocks. A row's result depends on its own query and on the keys up to its
// own length, in the order of keys and in sums cut at fixed places: it has the same bits in any company.
#pragma once

#include "kv_cache.h"

namespace primerl {

/** One query: `length` keys are seen. */
struct PagedQuery {
  const float* query;
  float* out;
  int64_t length;
};

/**
 * out = softmax(query · keys / sqrt(headDim)) · values for `rows` queries, at most a tile's, over layer and head of keys
 * `stream`. `scratch` grows as needed.
 */
void pagedAttention(const KvCache::State& cache, int64_t stream, int rows, const PagedQuery* queries,
                    Buffer<float>& scratch);

/** Stores a token's key and value at its place. */
void storeToken(const KvCache::State& cache, int64_t stream, int64_t place, const float* key, const float* value);

}  // namespace primerl
