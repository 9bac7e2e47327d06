// One adapter on a model: its own A and B, gradients, moments, step count and version. What it costs beside the model is its
// own size; the model's parameters are never touched by it.
#pragma once

#include <cstdint>
#include <memory>

#include "parameters.h"
#include "primerl/decode.h"
#include "primerl/lora.h"

namespace primerl {

class Adapter : public Parameters {
 public:
  /** `shared` is that of the model, whose numbers of versions it takes. */
  Adapter(const ModelConfig& config, const LoraOptions& options, bool trainable, std::shared_ptr<Shared> shared);
  ~Adapter() override;

  /** Of values, and of gradients and moments where it is trained. */
  static int64_t bytesOf(const LoraLayout& layout, bool trainable);

  const LoraLayout& layout() const { return layout_; }
  const TensorTable& table() const override { return layout_; }
  bool trainable() const { return trainable_; }
  using Parameters::requireTrainable;

  /** Names it among all adapters of its model; never 0. */
  uint64_t id() const { return id_; }

  /** A uniform in ±1/sqrt(in), as PyTorch's Kaiming-uniform with a = sqrt(5); B zero: the model computes as without it. */
  void initialise();

  void zeroGradients() override;
  AdamWReport optimizerStep(const Compute& compute, const AdamW& options) override;

  /** A pass without gradients and dropout. */
  LoraPass<float> scoring() const;
  /** The next training pass: its masks are a function of the seed, the steps taken, and its number since the last step. */
  LoraPass<float> training();

  /** Its values as they are now, packed for decoding. */
  std::shared_ptr<const DecoderAdapter> decoder(const Compute& compute);

 private:
  const ModelConfig config_;
  const LoraLayout layout_;
  const uint64_t id_;
  /** training passes since the last step */
  uint64_t passes_ = 0;
  std::shared_ptr<const DecoderAdapter> decoder_;
  uint64_t decoderVersion_ = 0;
};

}  // namespace primerl
