// The loss of one token, for every target that computes it: the processor and CUDA devices compile this one formula.
#pragma once

#include <cmath>

#include "primerl/everywhere.h"
#include "primerl/loss.h"

namespace primerl {

constexpr double refKlMaskLow = 0.2;
constexpr double refKlTau = 1e-3;

PRIMERL_EVERYWHERE inline bool rlMember(const Batch& batch, int64_t t) {
  return batch.mask[t] != 0 && (batch.rlWeights == nullptr || batch.rlWeights[t] != 0);
}

PRIMERL_EVERYWHERE inline bool ceMember(const Batch& batch, int64_t t) {
  return batch.ceWeights != nullptr && batch.ceWeights[t] != 0;
}

PRIMERL_EVERYWHERE inline bool refKlMember(const Batch& batch, int64_t t) {
  return batch.refKlWeights != nullptr && batch.refKlWeights[t] != 0;
}

/** A token's loss and its slope by the trainer's log-probability. */
struct LossTerm {
  double loss = 0;
  double slope = 0;
};

/** What the losses ask about a token: log-ratio, ratio, and the move of the probability itself. */
struct LossMove {
  double trainer, delta, ratio, moved;
  PRIMERL_EVERYWHERE LossMove(double trainerLogprob, double inference)
      : trainer(trainerLogprob), delta(trainerLogprob - inference), ratio(exp(delta)),
        moved(exp(trainerLogprob) - exp(inference)) {}
};

/** −A·r, whose slope is itself. */
PRIMERL_EVERYWHERE inline LossTerm surrogate(double advantage, double ratio) {
  return {-advantage * ratio, -advantage * ratio};
}

PRIMERL_EVERYWHERE inline LossTerm trustRegion(const LossSpec& spec, double advantage, const LossMove& at) {
  const LossTerm term{spec.klTau * at.delta * at.delta, 2 * spec.klTau * at.delta};
  const bool kept = spec.kernel == RlKernel::ipo ? fabs(at.moved) <= spec.threshold
                    : advantage > 0              ? at.moved <= spec.maskHigh
                                                 : at.moved >= -spec.maskLow;
  if (spec.advantageTau * advantage == 0 || !kept) return term;
  const LossTerm policy = surrogate(spec.advantageTau * advantage, at.ratio);
  return {term.loss + policy.loss, term.slope + policy.slope};
}

/** An advantage of 0 has no policy term, even where the ratio overflows: 0 times infinity is not a number. */
PRIMERL_EVERYWHERE inline LossTerm policyLoss(const LossSpec& spec, double advantage, const LossMove& at) {
  if (spec.kernel == RlKernel::dppo || spec.kernel == RlKernel::ipo) return trustRegion(spec, advantage, at);
  if (advantage == 0) return {};
  const double low = 1 - spec.clipLow, high = 1 + spec.clipHigh;
  const double clipped = at.ratio < low ? low : high < at.ratio ? high : at.ratio;
  switch (spec.kernel) {
    case RlKernel::ppoClip:
      return at.ratio * advantage <= clipped * advantage ? surrogate(advantage, at.ratio)
                                                         : LossTerm{-advantage * clipped, 0};
    case RlKernel::cispo:
      return {-clipped * advantage * at.trainer, -clipped * advantage};
    case RlKernel::icepop:
      return at.ratio < spec.ratioLow || at.ratio > spec.ratioHigh ? LossTerm{} : surrogate(advantage, at.ratio);
    default:
      return surrogate(advantage, at.ratio);
  }
}

/** What one member token adds to the component losses, and the slope of their sum by its log-probability. */
struct TokenTerms {
  LossSums losses;
  double slope = 0;
};

PRIMERL_EVERYWHERE inline double atLeastOne(double count) { return count < 1.0 ? 1.0 : count; }

PRIMERL_EVERYWHERE inline TokenTerms tokenTerms(const Batch& batch, const LossSpec& spec, const Counts& counts,
                                                int64_t token, double trainerLogprob) {
  TokenTerms terms;
  if (ceMember(batch, token)) {
    const double scale = double(batch.ceWeights[token]) / atLeastOne(counts.ce);
    terms.losses.ce = -(scale * trainerLogprob);
    terms.slope -= scale;
  }
  const bool rl = rlMember(batch, token), refKl = refKlMember(batch, token);
  if (!rl && !refKl) return terms;

  const LossMove at(trainerLogprob, batch.logprobs[token]);
  if (rl) {
    const double weight = batch.rlWeights == nullptr ? 1.0 : double(batch.rlWeights[token]);
    const double scale = weight / atLeastOne(counts.rl);
    const LossTerm term = policyLoss(spec, batch.advantages[token], at);
    terms.losses.rl = scale * term.loss;
    terms.slope += scale * term.slope;
  }
  if (refKl) {
    const double scale = double(batch.refKlWeights[token]) / atLeastOne(counts.refKl);
    LossTerm term{refKlTau * at.delta * at.delta, 2 * refKlTau * at.delta};
    if (at.moved >= -refKlMaskLow) {
      const LossTerm pull = surrogate(double(batch.referenceLogprobs[token]) - trainerLogprob, at.ratio);
      term = {term.loss + pull.loss, term.slope + pull.slope};
    }
    terms.losses.refKl = scale * term.loss;
    terms.slope += scale * term.slope;
  }
  return terms;
}

}  // namespace primerl
