// How much memory a model takes, before it takes any.
#pragma once

#include <cstdint>

#include "primerl/compute.h"
#include "primerl/config.h"

namespace primerl {

struct PlanOptions {
  bool trainable = false;
  /** only the inputs of layers are kept for the backward pass */
  bool recompute = false;
  Isa isa = Isa::scalar;
  Precision precision = Precision::float32;
  Precision headPrecision = Precision::float32;
  int threads = 1;
  /** of the largest packed batch */
  int64_t tokens = 0;
  /** of adapters: values, and gradients and moments of those that are trained */
  int64_t adapterBytes = 0;
  /** of the adapter that a batch is of, and whether that batch trains it; 0: it is of none */
  int64_t rank = 0;
  bool adapterTrains = false;
  bool drops = false;
};

/** Bytes. */
struct MemoryPlan {
  int64_t weights = 0;
  int64_t gradients = 0;
  /** both moments of AdamW */
  int64_t optimizer = 0;
  /** of all adapters, with the gradients and moments of their own */
  int64_t adapters = 0;
  /** kept from a forward pass for its backward pass */
  int64_t activations = 0;
  /** of the running layer and of the head */
  int64_t workspace = 0;
  /** the packed copy of the weights that decoding reads */
  int64_t decoder = 0;
  /** keys and values of one token while it is decoded */
  int64_t cachePerToken = 0;

  /** Of training or scoring; decoding comes on top. */
  int64_t total() const { return weights + gradients + optimizer + adapters + activations + workspace; }
};

/** Throws ERR_CONFIG when the configuration cannot be. */
MemoryPlan memoryPlan(const ModelConfig& config, const PlanOptions& options);

/** The head's part of the workspace for at most `targets` predictions. */
template <class T>
int64_t headScratchBytes(const Compute& compute, int64_t width, int64_t vocab, int64_t targets, bool backward);

}  // namespace primerl
