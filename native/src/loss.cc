#include "primerl/loss.h"

#include <algorithm>
#include <cmath>

namespace primerl {

namespace {

constexpr double refKlMaskLow = 0.2;
constexpr double refKlTau = 1e-3;

bool rlMember(const Batch& batch, int64_t t) {
  return batch.mask[t] != 0 && (batch.rlWeights == nullptr || batch.rlWeights[t] != 0);
}

bool ceMember(const Batch& batch, int64_t t) { return batch.ceWeights != nullptr && batch.ceWeights[t] != 0; }

bool refKlMember(const Batch& batch, int64_t t) { return batch.refKlWeights != nullptr && batch.refKlWeights[t] != 0; }

/** A token's loss and its slope by the trainer's log-probability. */
struct Term {
  double loss = 0;
  double slope = 0;
};

/** What the losses ask about a token: log-ratio, ratio, and the move of the probability itself. */
struct Move {
  double trainer, delta, ratio, moved;
  Move(double trainerLogprob, double inference)
      : trainer(trainerLogprob), delta(trainerLogprob - inference), ratio(std::exp(delta)),
        moved(std::exp(trainerLogprob) - std::exp(inference)) {}
};

/** −A·r, whose slope is itself. */
Term surrogate(double advantage, double ratio) { return {-advantage * ratio, -advantage * ratio}; }

Term trustRegion(const LossSpec& spec, double advantage, const Move& at) {
  Term term{spec.klTau * at.delta * at.delta, 2 * spec.klTau * at.delta};
  const bool kept = spec.kernel == RlKernel::ipo ? std::abs(at.moved) <= spec.threshold
                    : advantage > 0              ? at.moved <= spec.maskHigh
                                                 : at.moved >= -spec.maskLow;
  if (spec.advantageTau * advantage == 0 || !kept) return term;
  const Term policy = surrogate(spec.advantageTau * advantage, at.ratio);
  return {term.loss + policy.loss, term.slope + policy.slope};
}

/** An advantage of 0 has no policy term, even where the ratio overflows: 0 times infinity is not a number. */
Term policyLoss(const LossSpec& spec, double advantage, const Move& at) {
  if (spec.kernel == RlKernel::dppo || spec.kernel == RlKernel::ipo) return trustRegion(spec, advantage, at);
  if (advantage == 0) return {};
  const double clipped = std::clamp(at.ratio, 1 - spec.clipLow, 1 + spec.clipHigh);
  switch (spec.kernel) {
    case RlKernel::ppoClip:
      return at.ratio * advantage <= clipped * advantage ? surrogate(advantage, at.ratio)
                                                         : Term{-advantage * clipped, 0};
    case RlKernel::cispo:
      return {-clipped * advantage * at.trainer, -clipped * advantage};
    case RlKernel::icepop:
      return at.ratio < spec.ratioLow || at.ratio > spec.ratioHigh ? Term{} : surrogate(advantage, at.ratio);
    default:
      return surrogate(advantage, at.ratio);
  }
}

}  // namespace

std::vector<uint8_t> neededTokens(const Batch& batch) {
  std::vector<uint8_t> needed(static_cast<size_t>(batch.tokens), 0);
  int64_t t = 0;
  for (int64_t sequence = 0; sequence < batch.sequences; sequence++) {
    const int64_t end = t + batch.sequenceLengths[sequence];
    for (t++; t < end; t++) {
      needed[static_cast<size_t>(t)] = rlMember(batch, t) || ceMember(batch, t) || refKlMember(batch, t) ? 1 : 0;
    }
  }
  return needed;
}

double tokenLoss(const Batch& batch, const LossSpec& spec, const Counts& counts, int64_t token, double trainerLogprob,
                 LossSums& sums) {
  double gradient = 0;
  if (ceMember(batch, token)) {
    const double scale = double(batch.ceWeights[token]) / std::max(counts.ce, 1.0);
    sums.ce -= scale * trainerLogprob;
    gradient -= scale;
  }
  const bool rl = rlMember(batch, token), refKl = refKlMember(batch, token);
  if (!rl && !refKl) return gradient;

  const Move at(trainerLogprob, batch.logprobs[token]);
  if (rl) {
    const double weight = batch.rlWeights == nullptr ? 1.0 : double(batch.rlWeights[token]);
    const double scale = weight / std::max(counts.rl, 1.0);
    const Term term = policyLoss(spec, batch.advantages[token], at);
    sums.rl += scale * term.loss;
    gradient += scale * term.slope;
  }
  if (refKl) {
    const double scale = double(batch.refKlWeights[token]) / std::max(counts.refKl, 1.0);
    Term term{refKlTau * at.delta * at.delta, 2 * refKlTau * at.delta};
    if (at.moved >= -refKlMaskLow) {
      const Term pull = surrogate(double(batch.referenceLogprobs[token]) - trainerLogprob, at.ratio);
      term = {term.loss + pull.loss, term.slope + pull.slope};
    }
    sums.refKl += scale * term.loss;
    gradient += scale * term.slope;
  }
  return gradient;
}

LossSums packedLoss(const Batch& batch, const LossSpec& spec, const Counts& counts, const float* trainerLogprobs,
                    float* gradient) {
  const std::vector<uint8_t> needed = neededTokens(batch);
  LossSums sums;
  for (int64_t t = 0; t < batch.tokens; t++) {
    gradient[t] = needed[static_cast<size_t>(t)] == 0
                      ? 0.0f
                      : static_cast<float>(tokenLoss(batch, spec, counts, t, trainerLogprobs[t], sums));
  }
  return sums;
}

}  // namespace primerl
