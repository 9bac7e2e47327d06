// Forward and backward over a packed batch; a token sees only earlier tokens of its own sequence, and logits exist for
// one chunk of rows at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "primerl/batch.h"
#include "primerl/compute.h"
#include "primerl/config.h"
#include "primerl/layout.h"
#include "primerl/lora.h"

namespace primerl {

struct ModelOptions {
  /** keep only the input of each layer and compute the rest again in the backward pass: less memory, more time */
  bool recompute = false;
};

/**
 * Arenas have the `layout()`, those of `lora` its own. With an adapter the model's `gradients` are not read, and may be
 * null: only the adapter gets gradients. `weights` must not change between a forward and its backward. Every call may throw
 * ERR_CANCELLED between layers and chunks; gradients are then partly added and the kept forward is gone.
 */
template <class T>
class Model {
 public:
  /** d loss / d logprob of one token, called once per needed token in the order of tokens. */
  using TokenGradient = std::function<double(int64_t token, double logprob)>;

  explicit Model(const ModelConfig& config, ModelOptions options = {});
  ~Model();

  const ModelConfig& config() const;
  const Layout& layout() const;

  /** Log-probability and entropy (nats) of every token but the first of each sequence, which get 0. Keeps nothing. */
  void score(const Compute& compute, const T* weights, const Tokens& tokens, T* logprobs, T* entropy,
             const LoraPass<T>& lora = {});

  /** The same for tokens with `needed[t] != 0` (null: all), 0 elsewhere; keeps the activations for one `backward`. */
  void forward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed, T* logprobs,
               T* entropy, const LoraPass<T>& lora = {});

  /** Adds to `gradients` for gradient[t] = d loss / d logprob of token t of the last `forward`; tokens with 0 skip the
   * head, the first of each sequence has none. `lora` is that of the forward pass. Throws ERR_STATE when no forward is kept, ERR_BATCH for the gradient of a
   * token that it was not asked for. */
  void backward(const Compute& compute, const T* weights, const T* gradient, T* gradients, const LoraPass<T>& lora = {});

  /** Forward and backward with the head in one sweep, for losses that look at one token at a time. */
  void forwardBackward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed,
                       const TokenGradient& tokenGradient, T* gradients, T* logprobs, T* entropy,
                       const LoraPass<T>& lora = {});

  /** Bytes held for a backward pass, and as scratch, of all passes so far. */
  int64_t keptBytes() const;
  int64_t scratchBytes() const;

  /** Frees the activations. */
  void forget();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace primerl
