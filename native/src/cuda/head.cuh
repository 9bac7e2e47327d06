// The output projection fused with log-softmax: logits exist for one tile of rows and vocabulary at a time, their
// statistics are carried from tile to tile, and the backward pass makes them again.
#pragma once

#include <cmath>
#include <type_traits>

#include "cuda/elementwise.cuh"
#include "cuda/matmul.cuh"

namespace primerl::cuda {

/** One prediction: the row of hidden states it comes from, the token that followed, where its result belongs. */
struct HeadTarget {
  int32_t row;
  int32_t id;
  int32_t token;
  float inverseTemperature;
};

/** Of z = logit · inverseTemperature, over the vocabulary seen so far; sums are those of exp(z - largest z). */
struct HeadStats {
  float top;
  float chosen;
  double total;
  double moment;
};

struct HeadSizes {
  int64_t width;
  int64_t vocab;
};

constexpr int64_t headRows = 1024;
constexpr int64_t headColumns = 8192;
constexpr int headThreads = 256;

static __global__ void headStartKernel(int64_t count, HeadStats* stats) {
  const int64_t i = element();
  if (i < count) stats[i] = {-INFINITY, 0, 0, 0};
}

/** Takes `columns` logits of each row, those of ids from `first` on, into the row's statistics. */
static __global__ void headStatsKernel(int64_t columns, int64_t first, const float* logits, const HeadTarget* targets,
                                       HeadStats* stats) {
  __shared__ float tops[headThreads / warpLanes];
  __shared__ double sums[headThreads / warpLanes];
  const HeadTarget target = targets[blockIdx.x];
  const HeadStats before = stats[blockIdx.x];
  logits += int64_t(blockIdx.x) * columns;
  float top = before.top;
  for (int64_t i = threadIdx.x; i < columns; i += headThreads) top = fmaxf(top, logits[i]);
  top = blockMax(top, tops);
  double total = 0, moment = 0;
  for (int64_t i = threadIdx.x; i < columns; i += headThreads) {
    const float z = (logits[i] - top) * target.inverseTemperature, weight = expf(z);
    total += double(weight);
    moment += double(weight * z);
  }
  total = blockSum(total, sums);
  moment = blockSum(moment, sums);
  if (threadIdx.x != 0) return;
  HeadStats after{top, before.chosen, total, moment};
  if (before.total > 0) {
    const double fall = (double(before.top) - double(top)) * double(target.inverseTemperature), shrink = exp(fall);
    after.total += before.total * shrink;
    after.moment += (before.moment + fall * before.total) * shrink;
  }
  if (target.id >= first && target.id < first + columns) after.chosen = logits[target.id - first];
  stats[blockIdx.x] = after;
}

/** Log-probability of the target and entropy (nats), by row. */
static __global__ void headResultKernel(int64_t count, const HeadTarget* targets, const HeadStats* stats,
                                        float* logprobs, float* entropy) {
  const int64_t i = element();
  if (i >= count) return;
  const HeadStats at = stats[i];
  const double logTotal = log(at.total);
  logprobs[i] = float((double(at.chosen) - double(at.top)) * double(targets[i].inverseTemperature) - logTotal);
  entropy[i] = float(logTotal - at.moment / at.total);
}

/** d loss / d logit for slopes d loss / d logprob; `gradients` may be the memory of `logits`. */
template <class T>
__global__ void headGradientKernel(int64_t rows, int64_t columns, int64_t first, const float* logits,
                                   const HeadTarget* targets, const HeadStats* stats, const float* slopes,
                                   T* gradients) {
  const int64_t i = element();
  if (i >= rows * columns) return;
  const int64_t row = i / columns, id = first + i % columns;
  const HeadTarget target = targets[row];
  const float z = (logits[i] - stats[row].top) * target.inverseTemperature;
  const float probability = expf(z - float(log(stats[row].total)));
  const float chosen = id == target.id ? 1.0f : 0.0f;
  gradients[i] = fromFloat<T>(slopes[row] * target.inverseTemperature * (chosen - probability));
}

template <class T>
__global__ void headGatherKernel(int64_t count, int64_t width, const HeadTarget* targets, const T* hidden, T* x) {
  const int64_t i = element();
  if (i < count * width) x[i] = hidden[targets[i / width].row * width + i % width];
}

/** dHidden[row] += dx; no two targets have the same row */
static __global__ void headScatterKernel(int64_t count, int64_t width, const HeadTarget* targets, const float* dx,
                                         float* dHidden) {
  const int64_t i = element();
  if (i < count * width) dHidden[targets[i / width].row * width + i % width] += dx[i];
}

template <class T>
struct HeadScratch {
  DeviceBuffer<T> x, gradients;
  DeviceBuffer<float> logits, dx;
};

/** Calls `use(first, count)` for chunks of targets. */
template <class Use>
void headChunks(int64_t count, int64_t size, Use use) {
  for (int64_t first = 0; first < count; first += size) use(first, count - first < size ? count - first : size);
}

template <class T>
const T* headGather(const Context& context, const HeadSizes& sizes, int64_t rows, const HeadTarget* targets,
                    const T* hidden, HeadScratch<T>& scratch) {
  T* x = scratch.x.need(headRows * sizes.width);
  launch(context, headGatherKernel<T>, elementGrid(rows * sizes.width), elementThreads, 0, rows, sizes.width, targets,
         hidden, x);
  return x;
}

/** Fills `stats`, `logprobs` and `entropy`, one entry for each target. */
template <class T>
void head(const Context& context, const HeadSizes& sizes, int64_t count, const HeadTarget* targets, const T* hidden,
          const T* w, HeadScratch<T>& scratch, HeadStats* stats, float* logprobs, float* entropy) {
  launch(context, headStartKernel, elementGrid(count), elementThreads, 0, count, stats);
  headChunks(count, headRows, [&](int64_t at, int64_t rows) {
    const T* x = headGather(context, sizes, rows, targets + at, hidden, scratch);
    headChunks(sizes.vocab, headColumns, [&](int64_t first, int64_t columns) {
      float* logits = scratch.logits.need(rows * columns);
      linear(context, rows, sizes.width, columns, x, w + first * sizes.width, logits, false);
      launch(context, headStatsKernel, {rows}, headThreads, 0, columns, first, logits, targets + at, stats + at);
    });
  });
  launch(context, headResultKernel, elementGrid(count), elementThreads, 0, count, targets, stats, logprobs, entropy);
}

/** `slopes` are d loss / d logprob of each target; adds to dHidden and dw. */
template <class T>
void headBackward(const Context& context, const HeadSizes& sizes, int64_t count, const HeadTarget* targets,
                  const T* hidden, const T* w, HeadScratch<T>& scratch, const HeadStats* stats, const float* slopes,
                  float* dHidden, float* dw) {
  const int64_t width = sizes.width;
  headChunks(count, headRows, [&](int64_t at, int64_t rows) {
    const T* x = headGather(context, sizes, rows, targets + at, hidden, scratch);
    float* dx = scratch.dx.need(headRows * width);
    headChunks(sizes.vocab, headColumns, [&](int64_t first, int64_t columns) {
      float* logits = scratch.logits.need(rows * columns);
      T* gradients;
      if constexpr (std::is_same<T, float>::value) gradients = logits;
      else gradients = scratch.gradients.need(rows * columns);
      linear(context, rows, width, columns, x, w + first * width, logits, false);
      launch(context, headGradientKernel<T>, elementGrid(rows * columns), elementThreads, 0, rows, columns, first,
             logits, targets + at, stats + at, slopes + at, gradients);
      linearBackward(context, rows, width, columns, x, w + first * width, gradients, dx, first > 0, dw + first * width);
    });
    launch(context, headScatterKernel, elementGrid(rows * width), elementThreads, 0, rows, width, targets + at, dx,
           dHidden);
  });
}

}  // namespace primerl::cuda
