// Causal attention of packed sequences in tiles of 32 queries and 32 keys. Scores exist for one tile at a time, in
// shared memory; the forward pass keeps one logarithm of a sum per query and head. A sequence's tiles never see another
// sequence. Every sum has one order: gradients of keys are summed by the block that has them, not by atomics.
#pragma once

#include <cmath>
#include <type_traits>

#include "cuda/runtime.h"
#include "cuda/reduce.cuh"

namespace primerl::cuda {

constexpr int attentionTile = 32;
/** 16 by 16: a thread has two rows and two columns of a tile of scores */
constexpr int attentionThreads = 256;
constexpr int largestHeadDim = 256;

struct AttentionSizes {
  int heads;
  int kvHeads;
  int headDim;
};

/** Tile `begin` of the sequence that lies at tokens `start` to `start + length`. */
struct AttentionBlock {
  int32_t start;
  int32_t length;
  int32_t begin;
};

/** Rows `begin` to `begin + 32` of one head as floats, rows of headDim + 1, zero beyond the sequence. */
template <class T>
__device__ inline void loadRows(const AttentionBlock& sequence, int begin, int heads, int head, int headDim,
                                const T* from, float scale, float* to) {
  for (int e = threadIdx.x; e < attentionTile * headDim; e += attentionThreads) {
    const int r = e / headDim, i = e % headDim;
    float value = 0;
    if (begin + r < sequence.length) {
      value = toFloat(from[(int64_t(sequence.start + begin + r) * heads + head) * headDim + i]) * scale;
    }
    to[r * (headDim + 1) + i] = value;
  }
}

/** Product of row `r` of `a` and row `c` of `b`. */
__device__ inline float rowProduct(int headDim, const float* a, int r, const float* b, int c) {
  float sum = 0;
  for (int i = 0; i < headDim; i++) sum += a[r * (headDim + 1) + i] * b[c * (headDim + 1) + i];
  return sum;
}

// The 16 threads of a row of the 16 by 16 are half a warp.
__device__ inline float halfWarpMax(float value) {
  for (int step = 8; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(allLanes, value, step));
  return value;
}

__device__ inline float halfWarpSum(float value) {
  for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(allLanes, value, step);
  return value;
}

/** A tile of scores, one column more than it has so that rows begin in different banks. */
constexpr int scoreStride = attentionTile + 1;

/** Bytes of shared memory for `rows` tiles of rows and `scores` tiles of scores. */
inline size_t attentionBytes(int headDim, int rows, int scores) {
  return sizeof(float) * size_t(attentionTile) * size_t(rows * (headDim + 1) + scores * scoreStride);
}

/** `Own` columns of a row of headDim belong to a thread: i = tx + 16 · n for n < Own. */
template <class T, int Own>
__global__ void attentionKernel(AttentionSizes sizes, const AttentionBlock* blocks, const T* q, const T* k, const T* v,
                                T* out, float* logSums, float scale) {
  PRIMERL_DYNAMIC_SHARED(float, shared);
  const int headDim = sizes.headDim, rowFloats = attentionTile * (headDim + 1);
  float* queries = shared;
  float* keys = queries + rowFloats;
  float* values = keys + rowFloats;
  float* weights = values + rowFloats;
  const AttentionBlock block = blocks[blockIdx.x];
  const int head = blockIdx.y, kvHead = head / (sizes.heads / sizes.kvHeads);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, result[2][Own] = {};
  loadRows(block, block.begin, sizes.heads, head, headDim, q, scale, queries);
  for (int first = 0; first <= block.begin; first += attentionTile) {
    loadRows(block, first, sizes.kvHeads, kvHead, headDim, k, 1.0f, keys);
    loadRows(block, first, sizes.kvHeads, kvHead, headDim, v, 1.0f, values);
    __syncthreads();
    for (int a = 0; a < 2; a++) {
      const int r = ty + 16 * a, query = block.begin + r;
      float score[2];
      for (int b = 0; b < 2; b++) {
        const int c = tx + 16 * b;
        // a query beyond the sequence sees what the last one sees, and is not stored
        score[b] = first + c <= query ? rowProduct(headDim, queries, r, keys, c) : -INFINITY;
      }
      const float larger = fmaxf(top[a], halfWarpMax(fmaxf(score[0], score[1])));
      const float shrink = expf(top[a] - larger);
      top[a] = larger;
      float total = 0;
      for (int b = 0; b < 2; b++) {
        const float weight = expf(score[b] - larger);
        weights[r * scoreStride + tx + 16 * b] = weight;
        total += weight;
      }
      sum[a] = sum[a] * shrink + halfWarpSum(total);
      for (int n = 0; n < Own; n++) result[a][n] *= shrink;
    }
    __syncthreads();
    for (int c = 0; c < attentionTile; c++) {
      for (int n = 0; n < Own; n++) {
        const int i = tx + 16 * n;
        const float value = i < headDim ? values[c * (headDim + 1) + i] : 0;
        result[0][n] += weights[ty * scoreStride + c] * value;
        result[1][n] += weights[(ty + 16) * scoreStride + c] * value;
      }
    }
    __syncthreads();
  }
  for (int a = 0; a < 2; a++) {
    const int query = block.begin + ty + 16 * a;
    if (query >= block.length) continue;
    const int64_t row = int64_t(block.start + query) * sizes.heads + head;
    for (int n = 0; n < Own; n++) {
      const int i = tx + 16 * n;
      if (i < headDim) out[row * headDim + i] = fromFloat<T>(result[a][n] / sum[a]);
    }
    if (tx == 0) logSums[row] = top[a] + logf(sum[a]);
  }
}

/** pulls[row] = out · dOut, one for each token and head */
template <class T>
__global__ void attentionPullKernel(int64_t rows, int headDim, const T* out, const T* dOut, float* pulls) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / warpLanes) + threadIdx.x / warpLanes;
  if (row >= rows) return;
  const int lane = threadIdx.x % warpLanes;
  float sum = 0;
  for (int i = lane; i < headDim; i += warpLanes) {
    sum += toFloat(out[row * headDim + i]) * toFloat(dOut[row * headDim + i]);
  }
  sum = warpSum(sum);
  if (lane == 0) pulls[row] = sum;
}

/** The weight of key `c` for query `r` of two tiles, and the gradient of its score; both 0 where it is not seen. */
struct ScoreSlope {
  float weight, slope;
};

__device__ inline ScoreSlope scoreSlope(int headDim, int length, int query, int key, const float* queries, int r,
                                        const float* keys, int c, const float* values, const float* outs, float logSum,
                                        float pull) {
  if (query >= length || key > query) return {0, 0};
  const float weight = expf(rowProduct(headDim, queries, r, keys, c) - logSum);
  // One key has all the weight whatever its score: exactly no gradient, not what rounding leaves of it.
  if (query == 0) return {weight, 0};
  return {weight, weight * (rowProduct(headDim, outs, r, values, c) - pull)};
}

/** Gradients of one tile of queries. */
template <class T, int Own>
__global__ void attentionQueryGradientKernel(AttentionSizes sizes, const AttentionBlock* blocks, const T* q, const T* k,
                                             const T* v, const T* dOut, const float* logSums, const float* pulls,
                                             T* dq, float scale) {
  PRIMERL_DYNAMIC_SHARED(float, shared);
  const int headDim = sizes.headDim, rowFloats = attentionTile * (headDim + 1);
  float* queries = shared;
  float* outs = queries + rowFloats;
  float* keys = outs + rowFloats;
  float* values = keys + rowFloats;
  float* slopes = values + rowFloats;
  const AttentionBlock block = blocks[blockIdx.x];
  const int head = blockIdx.y, kvHead = head / (sizes.heads / sizes.kvHeads);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  loadRows(block, block.begin, sizes.heads, head, headDim, q, scale, queries);
  loadRows(block, block.begin, sizes.heads, head, headDim, dOut, 1.0f, outs);
  float logSum[2] = {0, 0}, pull[2] = {0, 0}, result[2][Own] = {};
  for (int a = 0; a < 2; a++) {
    const int query = block.begin + ty + 16 * a;
    if (query >= block.length) continue;
    const int64_t row = int64_t(block.start + query) * sizes.heads + head;
    logSum[a] = logSums[row];
    pull[a] = pulls[row];
  }
  for (int first = 0; first <= block.begin; first += attentionTile) {
    loadRows(block, first, sizes.kvHeads, kvHead, headDim, k, 1.0f, keys);
    loadRows(block, first, sizes.kvHeads, kvHead, headDim, v, 1.0f, values);
    __syncthreads();
    for (int a = 0; a < 2; a++) {
      for (int b = 0; b < 2; b++) {
        const int r = ty + 16 * a, c = tx + 16 * b;
        slopes[r * scoreStride + c] = scoreSlope(headDim, block.length, block.begin + r, first + c, queries, r, keys, c,
                                                 values, outs, logSum[a], pull[a])
                                          .slope;
      }
    }
    __syncthreads();
    for (int c = 0; c < attentionTile; c++) {
      for (int n = 0; n < Own; n++) {
        const int i = tx + 16 * n;
        const float key = i < headDim ? keys[c * (headDim + 1) + i] : 0;
        result[0][n] += slopes[ty * scoreStride + c] * key;
        result[1][n] += slopes[(ty + 16) * scoreStride + c] * key;
      }
    }
    __syncthreads();
  }
  for (int a = 0; a < 2; a++) {
    const int query = block.begin + ty + 16 * a;
    if (query >= block.length) continue;
    for (int n = 0; n < Own; n++) {
      const int i = tx + 16 * n;
      if (i >= headDim) continue;
      dq[(int64_t(block.start + query) * sizes.heads + head) * headDim + i] = fromFloat<T>(result[a][n] * scale);
    }
  }
}

/** Gradients of one tile of keys and values, over all queries that see them and all heads that share them. */
template <class T, int Own>
__global__ void attentionKeyGradientKernel(AttentionSizes sizes, const AttentionBlock* blocks, const T* q, const T* k,
                                           const T* v, const T* dOut, const float* logSums, const float* pulls, T* dk,
                                           T* dv, float scale) {
  PRIMERL_DYNAMIC_SHARED(float, shared);
  const int headDim = sizes.headDim, rowFloats = attentionTile * (headDim + 1);
  float* queries = shared;
  float* outs = queries + rowFloats;
  float* keys = outs + rowFloats;
  float* values = keys + rowFloats;
  float* slopes = values + rowFloats;
  float* weights = slopes + attentionTile * scoreStride;
  const AttentionBlock block = blocks[blockIdx.x];
  const int kvHead = blockIdx.y, group = sizes.heads / sizes.kvHeads;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float dKeys[2][Own] = {}, dValues[2][Own] = {};
  loadRows(block, block.begin, sizes.kvHeads, kvHead, headDim, k, 1.0f, keys);
  loadRows(block, block.begin, sizes.kvHeads, kvHead, headDim, v, 1.0f, values);
  for (int head = kvHead * group; head < (kvHead + 1) * group; head++) {
    for (int first = block.begin; first < block.length; first += attentionTile) {
      loadRows(block, first, sizes.heads, head, headDim, q, scale, queries);
      loadRows(block, first, sizes.heads, head, headDim, dOut, 1.0f, outs);
      __syncthreads();
      for (int a = 0; a < 2; a++) {
        const int r = ty + 16 * a, query = first + r;
        float logSum = 0, pull = 0;
        if (query < block.length) {
          const int64_t row = int64_t(block.start + query) * sizes.heads + head;
          logSum = logSums[row];
          pull = pulls[row];
        }
        for (int b = 0; b < 2; b++) {
          const int c = tx + 16 * b;
          const ScoreSlope at = scoreSlope(headDim, block.length, query, block.begin + c, queries, r, keys, c, values,
                                           outs, logSum, pull);
          weights[r * scoreStride + c] = at.weight;
          slopes[r * scoreStride + c] = at.slope;
        }
      }
      __syncthreads();
      for (int r = 0; r < attentionTile; r++) {
        for (int n = 0; n < Own; n++) {
          const int i = tx + 16 * n;
          const float query = i < headDim ? queries[r * (headDim + 1) + i] : 0;
          const float out = i < headDim ? outs[r * (headDim + 1) + i] : 0;
          for (int a = 0; a < 2; a++) {
            dKeys[a][n] += slopes[r * scoreStride + ty + 16 * a] * query;
            dValues[a][n] += weights[r * scoreStride + ty + 16 * a] * out;
          }
        }
      }
      __syncthreads();
    }
  }
  for (int a = 0; a < 2; a++) {
    const int key = block.begin + ty + 16 * a;
    if (key >= block.length) continue;
    for (int n = 0; n < Own; n++) {
      const int i = tx + 16 * n;
      if (i >= headDim) continue;
      const int64_t at = (int64_t(block.start + key) * sizes.kvHeads + kvHead) * headDim + i;
      dk[at] = fromFloat<T>(dKeys[a][n]);
      dv[at] = fromFloat<T>(dValues[a][n]);
    }
  }
}

/** Tiles of all sequences on the device. */
struct AttentionPlan {
  int64_t tokens;
  int64_t count;
  const AttentionBlock* blocks;
};

/** Calls `use` with the number of columns that a thread has for this width, as a constant. */
template <class Use>
void withOwnColumns(int headDim, Use use) {
  if (headDim > largestHeadDim) {
    throw Error("ERR_CONFIG", "headDim is " + std::to_string(headDim) + "; attention on CUDA has at most " +
                                  std::to_string(largestHeadDim));
  }
  if (headDim <= 64) use(std::integral_constant<int, 4>());
  else if (headDim <= 128) use(std::integral_constant<int, 8>());
  else use(std::integral_constant<int, 16>());
}

inline float attentionScale(const AttentionSizes& sizes) { return float(1 / std::sqrt(double(sizes.headDim))); }

/** `logSums` has one entry for each token and head. */
template <class T>
void attention(const Context& context, const AttentionSizes& sizes, const AttentionPlan& plan, const T* q, const T* k,
               const T* v, T* out, float* logSums) {
  withOwnColumns(sizes.headDim, [&](auto own) {
    launch(context, attentionKernel<T, decltype(own)::value>, {plan.count, sizes.heads}, attentionThreads,
           attentionBytes(sizes.headDim, 3, 1), sizes, plan.blocks, q, k, v, out, logSums, attentionScale(sizes));
  });
}

template <class T>
void attentionBackward(const Context& context, const AttentionSizes& sizes, const AttentionPlan& plan, const T* q,
                       const T* k, const T* v, const T* out, const float* logSums, const T* dOut,
                       DeviceBuffer<float>& scratch, T* dq, T* dk, T* dv) {
  const int64_t rows = plan.tokens * sizes.heads;
  float* pulls = scratch.need(rows);
  launch(context, attentionPullKernel<T>, {blocksFor(rows, 4)}, 4 * warpLanes, 0, rows, sizes.headDim, out, dOut, pulls);
  withOwnColumns(sizes.headDim, [&](auto own) {
    launch(context, attentionQueryGradientKernel<T, decltype(own)::value>, {plan.count, sizes.heads}, attentionThreads,
           attentionBytes(sizes.headDim, 4, 1), sizes, plan.blocks, q, k, v, dOut, logSums, pulls, dq,
           attentionScale(sizes));
    launch(context, attentionKeyGradientKernel<T, decltype(own)::value>, {plan.count, sizes.kvHeads}, attentionThreads,
           attentionBytes(sizes.headDim, 4, 2), sizes, plan.blocks, q, k, v, dOut, logSums, pulls, dk, dv,
           attentionScale(sizes));
  });
}

}  // namespace primerl::cuda
