// Activations of one packed batch. What the backward pass needs is kept per layer; norms and the activated MLP are
// cheap and computed again.
#pragma once

#include <vector>

#include "primerl/buffer.h"
#include "primerl/batch.h"
#include "primerl/config.h"
#include "primerl/ops.h"

namespace primerl {

template <class T>
struct LayerActivations {
  Buffer<T> inputRstd;
  /** before the norm of each head; only with qkNorm */
  Buffer<T> rawQ, rawK, qRstd, kRstd;
  /** after rotation */
  Buffer<T> q, k;
  Buffer<T> v;
  Buffer<T> attended;
  /** after attention and its residual */
  Buffer<T> middle, middleRstd;
  Buffer<T> gate, up;
};

/** Which layers share memory: everything kept, inputs only, or nothing. */
enum class Keep { all, inputs, nothing };

template <class T>
struct Workspace {
  int64_t tokens = 0;
  std::vector<int32_t> ids;
  std::vector<float> temperatures;
  std::vector<Positions> positions;
  Keep keep = Keep::nothing;
  bool filled = false;

  std::vector<Buffer<T>> inputs;
  std::vector<LayerActivations<T>> layers;
  Buffer<T> normed, activated, hidden, hiddenRstd;
  HeadScratch<T> head;
  // gradients
  Buffer<T> stream, dHidden, dNormed, dActivated, dAttended, dq, dk, dv;

  void begin(const ModelConfig& config, const Tokens& batch, Keep wanted) {
    filled = false;
    tokens = batch.tokens;
    ids.assign(batch.tokenIds, batch.tokenIds + tokens);
    temperatures.assign(batch.temperatures, batch.temperatures + tokens);
    positions.assign(1, Positions(batch));
    keep = wanted;
    const size_t count = static_cast<size_t>(config.layers);
    inputs.resize(keep == Keep::nothing ? 2 : count + 1);
    layers.resize(keep == Keep::all ? count : 1);
  }

  T* input(int64_t layer, int64_t width) {
    const int64_t index = keep == Keep::nothing ? layer % 2 : layer;
    return inputs[static_cast<size_t>(index)].need(tokens * width);
  }

  LayerActivations<T>& layer(int64_t index) { return layers[keep == Keep::all ? static_cast<size_t>(index) : 0]; }

  const Positions& place() const { return positions.front(); }
};

}  // namespace primerl
