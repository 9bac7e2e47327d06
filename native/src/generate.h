// Sequences that are generated together. Each keeps the weights that it began with, and what it yields depends on its
// own request alone: not on its neighbours, nor on when it joined.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "primerl/compute.h"
#include "primerl/decode.h"
#include "sampler.h"

namespace primerl {

struct GenerateRequest {
  std::vector<int32_t> promptIds;
  Sampling sampling;
  /** hears of each draw in order and before the end, on the thread that steps; empty when nobody listens */
  std::function<void(const Draw&)> onDraw;
};

struct GenerateResult {
  std::vector<int32_t> tokenIds;
  std::vector<float> logprobs;
  /** a stop id was drawn; else the limit of tokens or of positions was reached */
  bool stopped = false;
  /** version of the weights that it was sampled with */
  uint64_t weightsVersion = 0;
};

class GenerationBatch {
 public:
  /** Called once; the exception is null when the result is whole. */
  using Done = std::function<void(std::exception_ptr, GenerateResult)>;

  explicit GenerationBatch(const ModelConfig& config);
  ~GenerationBatch();

  /** Throws ERR_BATCH or ERR_PROMPT_TOO_LONG when the request cannot be. */
  static void validate(const ModelConfig& config, const GenerateRequest& request);

  /** Takes `done` only when nothing can fail any more: after an exception the caller still has it to end the request. */
  void add(GenerateRequest request, std::shared_ptr<Decoder> decoder, uint64_t weightsVersion,
           std::shared_ptr<const Cancel> cancel, Done&& done);

  bool empty() const { return sequences_.empty(); }

  /** One token for every sequence whose prompt is read, and a bounded piece of the prompts that are not. */
  void step(const Compute& compute);

  /** Ends all sequences with this failure. */
  void fail(std::exception_ptr failure);

 private:
  struct Sequence;
  using Sequences = std::list<std::unique_ptr<Sequence>>;

  void dropCancelled();
  void stepOn(const Compute& compute, const std::shared_ptr<Decoder>& decoder);
  bool shareOrWait(Sequence& sequence);

  ModelConfig config_;
  Sequences sequences_;
  std::vector<float> logits_;
};

}  // namespace primerl
