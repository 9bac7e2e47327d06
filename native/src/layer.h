// One transformer layer as a pair of forward and backward.
#pragma once

#include "primerl/compute.h"
#include "primerl/layout.h"
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
};

/** Writes the layer's output to `next`. */
template <class T>
void layerForward(const LayerContext<T>& layer, T* next);

/** `stream` is the gradient of the layer's output and becomes that of its input. Overwrites kept gate and up. */
template <class T>
void layerBackward(const LayerContext<T>& layer, T* stream, T* gradients);

}  // namespace primerl
