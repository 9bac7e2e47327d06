#include "primerl/loss.h"

#include "primerl/token_loss.h"

namespace primerl {

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
  const TokenTerms terms = tokenTerms(batch, spec, counts, token, trainerLogprob);
  sums.rl += terms.losses.rl;
  sums.ce += terms.losses.ce;
  sums.refKl += terms.losses.refKl;
  return terms.slope;
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
