// One model on a device that has memory of its own: weights, gradients, moments, and the passes over a packed batch. It
// answers as Model and Network do on the processor. All arrays here are in the host's memory; parts of the arena are
// those of primerl/layout.h; `cancel` (null: cannot be cancelled) is asked between layers.
#pragma once

#include "primerl/adamw.h"
#include "primerl/batch.h"
#include "primerl/cancel.h"
#include "primerl/loss.h"

namespace primerl {

struct DeviceModelOptions {
  /**
   * Activations and operands of products are rounded to bfloat16; weights, sums, norms, the stream between layers, logits,
   * loss and optimiser are float32 all the same.
   */
  bool bfloat16 = false;
  /** keeps gradients and moments */
  bool trainable = false;
  /** keeps only the inputs of layers for the backward pass and computes the rest again */
  bool recompute = false;
};

class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  virtual void writeWeights(int64_t offset, int64_t count, const float* values) = 0;
  virtual void readWeights(int64_t offset, int64_t count, float* into) = 0;
  virtual void readGradients(int64_t offset, int64_t count, float* into) = 0;
  virtual void readMoments(int64_t offset, int64_t count, float* first, float* second) = 0;
  virtual void writeMoments(int64_t offset, int64_t count, const float* first, const float* second) = 0;

  /** Log-probability and entropy (nats) of tokens with `needed[t] != 0` (null: all), 0 elsewhere. */
  virtual void score(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
                     const Cancel* cancel) = 0;

  /** The same; keeps the activations for one `backward`. */
  virtual void forward(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
                       const Cancel* cancel) = 0;

  /** Adds to the gradients for gradient[t] = d loss / d logprob; throws ERR_STATE when no forward is kept. */
  virtual void backward(const float* gradient, const Cancel* cancel) = 0;

  /** Forward, loss and backward. */
  virtual LossSums forwardBackward(const Batch& batch, const Counts& counts, const LossSpec& loss, float* logprobs,
                                   float* entropy, const Cancel* cancel) = 0;

  virtual void zeroGradients() = 0;

  /** Clips and steps; leaves the gradients. `steps` is the number of steps before this one. */
  virtual AdamWReport optimizerStep(const AdamW& options, int64_t& steps) = 0;
};

}  // namespace primerl
