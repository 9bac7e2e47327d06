// A sequence's logits depend on its own tokens alone: the same bits whichever sequences share the step, and however its
// tokens were split over steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "primerl/compute.h"
#include "primerl/config.h"
#include "primerl/layout.h"
#include "primerl/lora.h"

namespace primerl {

class KvMemory;

/** Keys and values of one sequence, in blocks that sequences with a common beginning share. */
class KvCache {
 public:
  KvCache(const ModelConfig& config, Isa isa);
  explicit KvCache(std::shared_ptr<KvMemory> memory);
  ~KvCache();
  KvCache(KvCache&&) noexcept;
  KvCache& operator=(KvCache&&) noexcept;

  /** Tokens held. */
  int64_t length() const;

  /** Bytes of its blocks, shared ones included. */
  int64_t bytes() const;

  /** Gives its blocks back. */
  void clear();

  /** The first `length` tokens: prompts with a common prefix compute it once. */
  KvCache fork(int64_t length) const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/** Its own copy of an adapter, packed. */
class DecoderAdapter {
 public:
  DecoderAdapter(const Compute& compute, const ModelConfig& config, const LoraPass<float>& adapter);
  ~DecoderAdapter();

  struct State;
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/** Tokens that follow what `cache` holds. */
struct DecodeInput {
  KvCache* cache = nullptr;
  const int32_t* tokenIds = nullptr;
  int64_t count = 0;
  /** null: the model alone. Inputs of one adapter that lie side by side are multiplied together. */
  const DecoderAdapter* adapter = nullptr;
};

/** Runs on its own copy of the weights. */
class Decoder {
 public:
  Decoder(const ModelConfig& config, Isa isa);
  ~Decoder();

  KvCache newCache() const;

  /** Copies and packs the arena; caches filled with other weights stay readable but are stale. */
  void load(const Compute& compute, const float* weights);

  /**
   * Appends each input's tokens to its cache, all inputs in one packed pass, and writes the logits after each input's
   * last token: row i of `logits` [inputs.size(), vocabSize] belongs to inputs[i]. A prompt is an input of many tokens,
   * a decoding step is inputs of one. Throws ERR_BATCH for an unknown id, an empty input, a cache given twice or a
   * sequence longer than the model's positions, ERR_OUT_OF_MEMORY where the caches' memory ends; then, and when
   * cancelled, no cache has grown.
   */
  void extend(const Compute& compute, const std::vector<DecodeInput>& inputs, float* logits);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace primerl
