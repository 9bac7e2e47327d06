// Membership is decided before arithmetic: a token outside a component is skipped, never multiplied by zero. The first
// token of a sequence has no prediction and is a member of nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "primerl/batch.h"

namespace primerl {

/** The formula of each stands in the file of its name in src/Trainer/losses. */
enum class RlKernel { dppo, ipo, ppoClip, cispo, icepop, importanceSampling };

struct LossSpec {
  RlKernel kernel = RlKernel::dppo;
  /** dppo: largest fall and rise of a probability that is still pushed further */
  double maskLow = 0.2;
  double maskHigh = 0.2;
  /** ipo: largest move of a probability in either direction */
  double threshold = 0.1;
  /** dppo and ipo: scales of the policy term and of the squared log-ratio */
  double advantageTau = 1;
  double klTau = 1e-3;
  /** ppoClip and cispo: how far the ratio may be below and above 1 */
  double clipLow = 0.2;
  double clipHigh = 0.2;
  /** icepop: least and largest ratio */
  double ratioLow = 0.5;
  double ratioHigh = 5;
};

/** Members of each component in the whole step; a sum is divided by at least 1. */
struct Counts {
  double rl = 0;
  double ce = 0;
  double refKl = 0;
};

/** Component losses, divided by the counts. */
struct LossSums {
  double rl = 0;
  double ce = 0;
  double refKl = 0;
};

/** needed[t] = 1 where token t is a member of some component; `tokens` entries. */
std::vector<uint8_t> neededTokens(const Batch& batch);

/** Adds the losses of one member token to `sums`; returns d loss / d logprob. */
double tokenLoss(const Batch& batch, const LossSpec& spec, const Counts& counts, int64_t token, double trainerLogprob,
                 LossSums& sums);

/** The losses for given log-probabilities of the trainer; `gradient` has `tokens` entries, 0 where nothing is asked. */
LossSums packedLoss(const Batch& batch, const LossSpec& spec, const Counts& counts, const float* trainerLogprobs,
                    float* gradient);

}  // namespace primerl
