// Activations of one packed batch. What the backward pass needs is kept per layer; norms and the activated MLP are
// cheap and computed again.
#pragma once

#include <vector>

#include "adapted.h"
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

  int64_t size() const {
    int64_t numbers = 0;
    for (const Buffer<T>* buffer :
         {&inputRstd, &rawQ, &rawK, &qRstd, &kRstd, &q, &k, &v, &attended, &middle, &middleRstd, &gate, &up}) {
      numbers += buffer->size();
    }
    return numbers;
  }
};

/** Which layers share memory: everything kept, inputs only, or nothing. */
enum class Keep { all, inputs, nothing };

template <class T>
struct Workspace {
  int64_t tokens = 0;
  std::vector<int32_t> ids;
  std::vector<float> temperatures;
  std::vector<Positions> positions;
  /** rows of the last layer that a prediction is made from, and their positions */
  Rows wanted;
  std::vector<int32_t> wantedPositions;
  Keep keep = Keep::nothing;
  bool filled = false;

  std::vector<Buffer<T>> inputs;
  std::vector<LayerActivations<T>> layers;
  Buffer<T> normed, activated, hidden, hiddenRstd, picked;
  /** operands of the running layer */
  PackedMatrix<T> packed[4];
  HeadScratch<T> head;
  // gradients
  Buffer<T> stream, dNormed, dAttended, dq, dk, dv;
  LoraScratch<T> lora;

  void begin(const ModelConfig& config, const Tokens& batch, Keep what) {
    filled = false;
    tokens = batch.tokens;
    ids.assign(batch.tokenIds, batch.tokenIds + tokens);
    temperatures.assign(batch.temperatures, batch.temperatures + tokens);
    positions.assign(1, Positions(batch));
    keep = what;
    const size_t count = static_cast<size_t>(config.layers);
    inputs.resize(keep == Keep::nothing ? 2 : count + 1);
    layers.resize(keep == Keep::all ? count : 1);
  }

  T* input(int64_t layer, int64_t width) {
    const int64_t index = keep == Keep::nothing ? layer % 2 : layer;
    return inputs[static_cast<size_t>(index)].need(tokens * width);
  }

  LayerActivations<T>& layer(int64_t index) { return layers[keep == Keep::all ? static_cast<size_t>(index) : 0]; }

  /** Bytes held for the backward pass, and those of everything else. */
  int64_t keptBytes() const {
    int64_t numbers = 0;
    for (const Buffer<T>& input : inputs) numbers += input.size();
    for (const LayerActivations<T>& layer : layers) numbers += layer.size();
    return numbers * static_cast<int64_t>(sizeof(T));
  }
  int64_t scratchBytes() const {
    int64_t numbers = 0;
    for (const Buffer<T>* buffer : {&normed, &activated, &hidden, &hiddenRstd, &picked, &stream, &dNormed,
                                    &dAttended, &dq, &dk, &dv, &head.hidden, &head.logits, &head.partials}) {
      numbers += buffer->size();
    }
    numbers += lora.size();
    int64_t bytes = numbers * static_cast<int64_t>(sizeof(T)) + head.packed.bytes();
    for (const PackedMatrix<T>& matrix : packed) bytes += matrix.bytes();
    return bytes;
  }

  int64_t wantedRows() const { return static_cast<int64_t>(wanted.size()); }

  const Positions& place() const { return positions.front(); }
};

}  // namespace primerl
