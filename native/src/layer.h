// One transformer layer as a pair of forward and backward. What works on rows alone is done block by block: a block of
// rows passes through norm, products and activation while it is in the cache, and the threads share the blocks.
#pragma once

#include "primerl/compute.h"
#include "primerl/layout.h"
#include "primerl/lora.h"
#include "primerl/ops.h"
#include "workspace.h"

namespace primerl {

template <class T>
struct LayerContext {
  const Compute& compute;
  const ModelConfig& config;
  const LayerOffsets& offsets;
  const RopeTable<T>& rope;
  const T* weights;
  Workspace<T>& work;
  LayerActivations<T>& kept;
  /** the layer's input [tokens, hiddenSize] */
  const T* x;
  /** the rows of its output that are wanted; null: all. Keys and values are made for every token. */
  const Rows* wanted;
  /** which layer it is, and the adapter of this pass */
  int64_t index;
  const LoraPass<T>& lora;

  int64_t outputs() const { return wanted == nullptr ? work.tokens : static_cast<int64_t>(wanted->size()); }
};

/** Writes the wanted rows of the layer's output to `next`, one after another. */
template <class T>
void layerForward(const LayerContext<T>& layer, T* next);

/**
 * `stream` holds the gradient of the wanted rows and gets that of all rows of the input. Overwrites kept gate and up.
 * `gradients` is null where the model's own parameters get none, as under an adapter.
 */
template <class T>
void layerBackward(const LayerContext<T>& layer, T* stream, T* gradients);

}  // namespace primerl
