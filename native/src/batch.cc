#include "primerl/batch.h"

#include <cmath>
#include <string>

#include "primerl/error.h"

namespace primerl {

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error("ERR_BATCH", what); }

}  // namespace

void validateTokens(const ModelConfig& config, const Tokens& tokens) {
  int64_t total = 0;
  for (int64_t index = 0; index < tokens.sequences; index++) {
    const int64_t length = tokens.sequenceLengths[index];
    if (length < 1) {
      refuse("Sequence " + std::to_string(index) + " has length " + std::to_string(length) +
             "; every sequence of a batch has at least 1 token.");
    }
    if (length > config.maxPositionEmbeddings) {
      refuse("Sequence " + std::to_string(index) + " has " + std::to_string(length) + " tokens, the model has " +
             std::to_string(config.maxPositionEmbeddings) + " positions. Shorten the sequence.");
    }
    total += length;
  }
  if (total != tokens.tokens) {
    refuse("The sequence lengths sum to " + std::to_string(total) + ", but the batch has " +
           std::to_string(tokens.tokens) + " tokens.");
  }
  for (int64_t t = 0; t < tokens.tokens; t++) {
    const int32_t id = tokens.tokenIds[t];
    if (id < 0 || id >= config.vocabSize) {
      refuse("Token " + std::to_string(t) + " has id " + std::to_string(id) + ", outside the vocabulary of " +
             std::to_string(config.vocabSize) + ".");
    }
    const float temperature = tokens.temperatures[t];
    if (!(temperature > 0) || !std::isfinite(temperature)) {
      refuse("Token " + std::to_string(t) + " has temperature " + std::to_string(temperature) +
             "; log-probabilities need a finite temperature above 0.");
    }
  }
}

void validateBatch(const ModelConfig& config, const Batch& batch) {
  validateTokens(config, batch);
  if (batch.refKlWeights == nullptr || batch.referenceLogprobs != nullptr) return;
  for (int64_t t = 0; t < batch.tokens; t++) {
    if (batch.refKlWeights[t] != 0) {
      refuse("Token " + std::to_string(t) +
             " has a refKl weight, but the batch has no reference log-probabilities. Score it with the reference "
             "model.");
    }
  }
}

Positions::Positions(const Tokens& tokens) {
  starts.reserve(static_cast<size_t>(tokens.sequences) + 1);
  positions.reserve(static_cast<size_t>(tokens.tokens));
  starts.push_back(0);
  for (int64_t index = 0; index < tokens.sequences; index++) {
    const int32_t length = tokens.sequenceLengths[index];
    for (int32_t position = 0; position < length; position++) positions.push_back(position);
    starts.push_back(starts.back() + length);
  }
}

}  // namespace primerl
