// Draws tokens from logits. A draw depends on its logits, its parameters and its place in its sequence, on nothing else.
#pragma once
#include <cstdint>
#include <vector>

#include "primerl/isa.h"

namespace primerl {

struct Sampling {
  float temperature = 1;  // 0 takes the most probable token; its log-probability is then that at temperature 1
  float topP = 1;         // smallest set of the most probable tokens that holds this share of what top-k and min-p left
  int topK = 0;           // 0: no limit
  float minP = 0;         // least probability, as a share of the largest
  int maxTokens = 1;
  std::vector<int32_t> stopIds;
  uint32_t seed = 0;
};

struct Draw {
  int32_t id;
  float logprob;  // under the whole distribution at the sampling temperature, whatever the filters left out
};

// Keeps its scratch memory between draws; use one per thread.
class Sampler {
 public:
  // `position` is the index that the drawn token will have in its sequence. Throws Error when a logit is not a number.
  Draw draw(Isa isa, const float* logits, int64_t vocabSize, const Sampling& sampling, uint32_t position);

 private:
  struct Distribution;
  int32_t fromAll(const Distribution& of, double u);
  int32_t fromSome(const Distribution& of, const Sampling& sampling, double u);

  std::vector<float> probabilities_;
  std::vector<int32_t> kept_;
};

}  // namespace primerl
