// The losses of the tokens, by the formula that the processor has too (primerl/token_loss.h), summed in a fixed order.
#pragma once

#include "cuda/head.cuh"
#include "primerl/token_loss.h"

namespace primerl::cuda {

constexpr int lossThreads = 256;

/** Streams of `batch` are on the device. A thread has one target. */
static __global__ void tokenLossKernel(int64_t count, const HeadTarget* targets, Batch batch, LossSpec spec,
                                       Counts counts, const float* logprobs, float* slopes, LossSums* losses) {
  const int64_t i = element();
  if (i >= count) return;
  const TokenTerms terms = tokenTerms(batch, spec, counts, targets[i].token, double(logprobs[i]));
  slopes[i] = float(terms.slope);
  losses[i] = terms.losses;
}

/** One block sums all. */
static __global__ void sumLossesKernel(int64_t count, const LossSums* losses, LossSums* sums) {
  __shared__ double scratch[lossThreads / warpLanes];
  LossSums own;
  for (int64_t i = threadIdx.x; i < count; i += lossThreads) {
    own.rl += losses[i].rl;
    own.ce += losses[i].ce;
    own.refKl += losses[i].refKl;
  }
  own.rl = blockSum(own.rl, scratch);
  own.ce = blockSum(own.ce, scratch);
  own.refKl = blockSum(own.refKl, scratch);
  if (threadIdx.x == 0) *sums = own;
}

/** Writes `slopes` (d loss / d logprob) of each target and the sums; `losses` has `count` entries of scratch. */
inline void tokenLosses(const Context& context, int64_t count, const HeadTarget* targets, const Batch& batch,
                        const LossSpec& spec, const Counts& counts, const float* logprobs, float* slopes,
                        LossSums* losses, LossSums* sums) {
  launch(context, tokenLossKernel, elementGrid(count), elementThreads, 0, count, targets, batch, spec, counts, logprobs,
         slopes, losses);
  launch(context, sumLossesKernel, {1}, lossThreads, 0, count, losses, sums);
}

}  // namespace primerl::cuda
