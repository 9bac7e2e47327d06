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

/** Whether the probability has not moved too far in the direction in which the advantage pushes it. */
bool isKept(const LossSpec& spec, double advantage, double moved) {
  if (spec.kernel == RlKernel::ipo) return std::abs(moved) <= spec.threshold;
  return advantage > 0 ? moved <= spec.maskHigh : moved >= -spec.maskLow;
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

  const double delta = trainerLogprob - double(batch.logprobs[token]);
  const double ratio = std::exp(delta);
  const double moved = std::exp(trainerLogprob) - std::exp(double(batch.logprobs[token]));
  if (rl) {
    const double weight = batch.rlWeights == nullptr ? 1.0 : double(batch.rlWeights[token]);
    const double scale = weight / std::max(counts.rl, 1.0);
    const double advantage = batch.advantages[token];
    double loss = spec.klTau * delta * delta, slope = 2 * spec.klTau * delta;
    // An advantage of 0 has no policy term, even where the ratio overflows: 0 times infinity is not a number.
    if (spec.advantageTau * advantage != 0 && isKept(spec, advantage, moved)) {
      loss -= spec.advantageTau * advantage * ratio;
      slope -= spec.advantageTau * advantage * ratio;
    }
    sums.rl += scale * loss;
    gradient += scale * slope;
  }
  if (refKl) {
    const double scale = double(batch.refKlWeights[token]) / std::max(counts.refKl, 1.0);
    double loss = refKlTau * delta * delta, slope = 2 * refKlTau * delta;
    if (moved >= -refKlMaskLow) {
      const double pull = double(batch.referenceLogprobs[token]) - trainerLogprob;
      loss -= pull * ratio;
      slope -= pull * ratio;
    }
    sums.refKl += scale * loss;
    gradient += scale * slope;
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
