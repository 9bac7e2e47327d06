// Keys are held as panels and values as padded rows, as attention reads them, one block for each layer and head of keys.
// Rows beyond `length` are room.
#pragma once

#include "cpu/attention_block.h"
#include "primerl/buffer.h"
#include "primerl/decode.h"

namespace primerl {

struct KvCache::State {
  State(const ModelConfig& config, Isa isa);
  /** Empty, of the same shape, with room for `room` tokens. */
  State(const State& shape, int64_t room);

  const Kernels<float>& kernel;
  const int64_t blocks;
  const int64_t headDim;
  const int64_t width;
  int64_t length = 0;
  int64_t capacity = 0;
  Buffer<float> memory;

  /** Room for `count` tokens in all; what is held stays. */
  void reserve(int64_t count);
  void copyFrom(State& other, int64_t count);

  float* keys(int64_t block) { return memory.data() + block * capacity * (headDim + width); }
  float* values(int64_t block) { return keys(block) + capacity * headDim; }
};

}  // namespace primerl
