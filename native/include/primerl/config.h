// The shape of a decoder-only transformer of the Llama family; every later size is derived from these numbers.
#pragma once

#include <cstdint>

namespace primerl {

/** Llama-3 scaling of the rotary frequencies; `enabled` false leaves them as they are. */
struct RopeScaling {
  bool enabled = false;
  double factor = 1;
  double lowFreqFactor = 1;
  double highFreqFactor = 4;
  int64_t originalMaxPositionEmbeddings = 0;
};

/** Sizes are counts. The members are those of `ModelConfig` in src/Trainer/Native.ts. */
struct ModelConfig {
  int64_t hiddenSize = 0;
  int64_t intermediateSize = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int64_t vocabSize = 0;
  int64_t maxPositionEmbeddings = 0;
  double rmsNormEps = 1e-6;
  double ropeTheta = 10000;
  RopeScaling ropeScaling;
  /** the head is the transposed embedding */
  bool tieWordEmbeddings = false;
  /** RMS norm on each head of queries and keys (Qwen3) */
  bool qkNorm = false;
  /** biases of the q, k and v projections (Qwen2) */
  bool qkvBias = false;
  /** bias of the o projection */
  bool outputBias = false;
  /** biases of the gate, up and down projections */
  bool mlpBias = false;

  int64_t queryDim() const { return heads * headDim; }
  int64_t kvDim() const { return kvHeads * headDim; }

  /** Throws ERR_CONFIG and names the number that cannot be. */
  void validate() const;
};

}  // namespace primerl
