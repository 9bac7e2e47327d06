// A packed batch is sequences end to end with one entry per token in every stream; these are views, the caller owns
// the memory.
#pragma once

#include <cstdint>
#include <vector>

#include "primerl/config.h"

namespace primerl {

struct Tokens {
  int64_t tokens = 0;
  const int32_t* tokenIds = nullptr;
  int64_t sequences = 0;
  const int32_t* sequenceLengths = nullptr;
  const float* temperatures = nullptr;
};

/** The optional streams are null when absent: `rlWeights` then means 1, the other two no such component. */
struct Batch : Tokens {
  const uint8_t* mask = nullptr;
  const float* logprobs = nullptr;
  const float* advantages = nullptr;
  const float* referenceLogprobs = nullptr;
  const float* rlWeights = nullptr;
  const float* ceWeights = nullptr;
  const float* refKlWeights = nullptr;
};

/** Throws ERR_BATCH, naming the place, when ids, lengths or temperatures cannot be. */
void validateTokens(const ModelConfig& config, const Tokens& tokens);

/** Throws ERR_BATCH as `validateTokens` does, and when refKl weights come without reference log-probabilities. */
void validateBatch(const ModelConfig& config, const Batch& batch);

/** `starts` has one more entry than sequences: the number of tokens. `positions` are those within the own sequence. */
struct Positions {
  std::vector<int64_t> starts;
  std::vector<int32_t> positions;

  explicit Positions(const Tokens& tokens);
};

}  // namespace primerl
