// Draws a token from each row of logits, by the same rules and the same random numbers as the processor (sampler.h).
// Filters are cuts in one order, the more probable first and of equals the lower id; a cut is found bit by bit, by
// asking how much lies above it, so nothing is sorted.
#pragma once

#include "cuda/reduce.cuh"
#include "random.h"

namespace primerl::cuda {

constexpr int samplingThreads = 256;

struct SamplingRow {
  float temperature;
  float topP;
  float minP;
  int32_t topK;
  uint64_t seed;
  /** the index that the drawn token will have in its sequence */
  uint64_t position;
};

struct Drawn {
  /** -1: the logits are not finite */
  int32_t id;
  float logprob;
};

/** Place in the order of probability: larger is more probable, or as probable with a lower id. */
__device__ inline uint64_t probabilityKey(float probability, int64_t id) {
  return (uint64_t(__float_as_uint(probability)) << 32) | uint64_t(0xffffffffu - uint32_t(id));
}

__device__ inline int32_t keyId(uint64_t key) { return int32_t(0xffffffffu - uint32_t(key)); }

/** One row; all threads of a block call its methods together. */
struct SamplingBlock {
  const float* probabilities;
  int64_t vocab;
  float minP;
  double* scratch;

  __device__ bool kept(float probability) const { return probability > 0 && probability >= minP; }

  __device__ double massFrom(uint64_t key) const {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < vocab; i += samplingThreads) {
      const float p = probabilities[i];
      if (kept(p) && probabilityKey(p, i) >= key) sum += double(p);
    }
    return blockSum(sum, scratch);
  }

  __device__ double countFrom(uint64_t key) const {
    double count = 0;
    for (int64_t i = threadIdx.x; i < vocab; i += samplingThreads) {
      const float p = probabilities[i];
      if (kept(p) && probabilityKey(p, i) >= key) count += 1;
    }
    return blockSum(count, scratch);
  }

  /** The largest key from which on `measure` is at least, or more than, `wanted`. At least `lowest`. */
  template <class Enough>
  __device__ uint64_t cut(uint64_t lowest, Enough enough) const {
    uint64_t key = 0;
    for (int bit = 62; bit >= 0; bit--) {
      const uint64_t higher = key | (uint64_t(1) << bit);
      if (higher <= lowest || enough(higher)) key = higher;
    }
    return key < lowest ? lowest : key;
  }
};

/** The id after which the sum of probabilities, in the order of ids, exceeds `target`. */
__device__ inline int32_t firstBeyond(const float* probabilities, int64_t vocab, double target, double* sums,
                                      int32_t* found) {
  const int64_t share = (vocab + samplingThreads - 1) / samplingThreads;
  const int64_t begin = int64_t(threadIdx.x) * share, end = begin + share < vocab ? begin + share : vocab;
  double own = 0;
  int32_t last = -1;
  for (int64_t i = begin; i < end; i++) {
    own += double(probabilities[i]);
    if (probabilities[i] > 0) last = int32_t(i);
  }
  sums[threadIdx.x] = own;
  found[threadIdx.x] = last;
  __syncthreads();
  if (threadIdx.x == 0) {
    double before = 0;
    int32_t id = -1;
    for (int t = 0; t < samplingThreads && id < 0; t++) {
      if (before + sums[t] > target) {
        const int64_t from = int64_t(t) * share;
        for (int64_t i = from; i < from + share && i < vocab && id < 0; i++) {
          before += double(probabilities[i]);
          if (before > target && probabilities[i] > 0) id = int32_t(i);
        }
      } else {
        before += sums[t];
      }
    }
    // rounding left the target beyond the whole sum
    for (int t = samplingThreads - 1; t >= 0 && id < 0; t--) id = found[t];
    found[0] = id;
  }
  __syncthreads();
  return found[0];
}

static __global__ void sampleKernel(int64_t vocab, const float* logits, const SamplingRow* rows,
                                    float* probabilities, Drawn* drawn) {
  __shared__ double sums[samplingThreads];
  __shared__ int32_t ids[samplingThreads];
  __shared__ float tops[samplingThreads];
  const SamplingRow row = rows[blockIdx.x];
  logits += int64_t(blockIdx.x) * vocab;
  probabilities += int64_t(blockIdx.x) * vocab;
  int32_t best = -1;
  for (int64_t i = threadIdx.x; i < vocab; i += samplingThreads) {
    if (best < 0 || logits[i] > logits[best]) best = int32_t(i);
  }
  ids[threadIdx.x] = best;
  tops[threadIdx.x] = best < 0 ? -INFINITY : logits[best];
  __syncthreads();
  best = 0;
  for (int t = 1; t < samplingThreads && t < vocab; t++) {
    if (tops[t] > tops[best] || (tops[t] == tops[best] && ids[t] < ids[best])) best = t;
  }
  const float top = tops[best];
  best = ids[best];
  __syncthreads();
  const float scale = row.temperature > 0 ? 1.0f / row.temperature : 1.0f;
  double total = 0;
  for (int64_t i = threadIdx.x; i < vocab; i += samplingThreads) {
    const float p = expf((logits[i] - top) * scale);
    probabilities[i] = p;
    total += double(p);
  }
  total = blockSum(total, sums);
  int32_t id = best;
  // the same for all threads: blockSum gives all of them the same number
  const bool finite = total - total == 0 && top - top == 0;
  if (finite && row.temperature > 0) {
    const double u = uniform(row.seed, samplingStream, row.position);
    const SamplingBlock block{probabilities, vocab, row.minP, sums};
    if (row.topK <= 0 && row.topP >= 1 && row.minP <= 0) {
      __syncthreads();
      id = firstBeyond(probabilities, vocab, u * total, sums, ids);
    } else {
      uint64_t lowest = 0;
      if (row.topK > 0) lowest = block.cut(0, [&](uint64_t key) { return block.countFrom(key) >= double(row.topK); });
      const double mass = block.massFrom(lowest), wanted = row.topP < 1 ? double(row.topP) * mass : mass;
      lowest = block.cut(lowest, [&](uint64_t key) { return block.massFrom(key) >= wanted; });
      const double target = u * block.massFrom(lowest);
      id = keyId(block.cut(lowest, [&](uint64_t key) { return block.massFrom(key) > target; }));
    }
  }
  if (threadIdx.x != 0) return;
  const double logTotal = log(total);
  drawn[blockIdx.x] =
      finite ? Drawn{id, float(double((logits[id] - top) * scale) - logTotal)} : Drawn{-1, 0};
}

/** One draw for each of `count` rows; `probabilities` is scratch for count · vocab floats. */
inline void sample(const Context& context, int64_t count, int64_t vocab, const float* logits, const SamplingRow* rows,
                   float* probabilities, Drawn* drawn) {
  launch(context, sampleKernel, {count}, samplingThreads, 0, vocab, logits, rows, probabilities, drawn);
}

}  // namespace primerl::cuda
