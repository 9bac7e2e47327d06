// AdamW and the norm of the gradient. What is the same for every parameter comes from primerl/adamw.h.
#pragma once

#include "cuda/elementwise.cuh"
#include "primerl/adamw.h"

namespace primerl::cuda {

constexpr int64_t squaresPerBlock = 1 << 14;

static __global__ void squaresKernel(int64_t count, const float* values, double* partial) {
  __shared__ double scratch[elementThreads / warpLanes];
  const int64_t begin = int64_t(blockIdx.x) * squaresPerBlock;
  const int64_t end = begin + squaresPerBlock < count ? begin + squaresPerBlock : count;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += elementThreads) sum += double(values[i]) * double(values[i]);
  sum = blockSum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/** Euclidean norm; waits for the device. */
inline double globalNorm(const Context& context, int64_t count, const float* values, DeviceBuffer<double>& scratch) {
  const int64_t blocks = blocksFor(count, squaresPerBlock);
  launch(context, squaresKernel, {blocks}, elementThreads, 0, count, values, scratch.need(blocks));
  double total = 0;
  for (const double sum : scratch.toHost(context, blocks)) total += sum;
  return std::sqrt(total);
}

static __global__ void adamwKernel(int64_t count, AdamWStep step, float* weights, const float* gradients, float* first,
                                   float* second) {
  const int64_t i = element();
  if (i >= count) return;
  const float beta1 = float(step.beta1), beta2 = float(step.beta2);
  const float g = gradients[i] * float(step.clip);
  const float m = beta1 * first[i] + float(1 - step.beta1) * g;
  const float v = beta2 * second[i] + float(1 - step.beta2) * g * g;
  first[i] = m;
  second[i] = v;
  weights[i] = weights[i] * float(step.decay) -
               float(step.stepSize) * m / (sqrtf(v * float(step.secondCorrection)) + float(step.eps));
}

inline void adamw(const Context& context, int64_t count, const AdamWStep& step, float* weights, const float* gradients,
                  float* first, float* second) {
  launch(context, adamwKernel, elementGrid(count), elementThreads, 0, count, step, weights, gradients, first, second);
}

}  // namespace primerl::cuda
