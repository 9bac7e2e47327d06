// Keys and values of 32 tokens at fixed places of a sequence: the piece that caches share, copy and give back.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/kernels.h"
#include "primerl/buffer.h"
#include "primerl/config.h"

namespace primerl {

/** Tokens of one block: whole panels of keys for every instruction set. */
constexpr int64_t blockTokens = 32;

/** Blocks that hold `tokens`. */
inline int64_t blocksFor(int64_t tokens) { return (tokens + blockTokens - 1) / blockTokens; }

/** Inside a block every layer and head of keys has its panels of keys, then its rows of values. */
struct KvShape {
  KvShape(const ModelConfig& config, Isa isa);

  const Kernels<float>& kernel;
  /** layers times heads of keys */
  const int64_t streams;
  const int64_t headDim;
  /** of a row of values: whole vectors */
  const int64_t width;

  int64_t elements() const { return streams * blockTokens * (headDim + width); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(sizeof(float)); }
};

class KvMemory;

class KvBlock {
 public:
  explicit KvBlock(KvMemory& memory);
  ~KvBlock();
  KvBlock(const KvBlock&) = delete;
  KvBlock& operator=(const KvBlock&) = delete;

  float* keys(int64_t stream) { return data_.data() + stream * blockTokens * (shape_.headDim + shape_.width); }
  float* values(int64_t stream) { return keys(stream) + blockTokens * shape_.headDim; }

 private:
  friend class KvMemory;
  const KvShape& shape_;
  std::shared_ptr<int64_t> used_;
  Buffer<float> data_;
};

using KvBlockRef = std::shared_ptr<KvBlock>;

/** Hands out blocks of one shape and counts those that live; it must outlive them. Used by one thread at a time. */
class KvMemory {
 public:
  KvMemory(const ModelConfig& config, Isa isa, int64_t limitBlocks);

  const KvShape& shape() const { return shape_; }
  int64_t used() const { return *used_; }
  int64_t limit() const { return limit_; }
  int64_t bytes() const { return used() * shape_.bytes(); }

  /** Throws ERR_OUT_OF_MEMORY at the limit. */
  KvBlockRef take();
  /** A block with the same content. */
  KvBlockRef copy(const KvBlock& from);

 private:
  friend class KvBlock;
  const KvShape shape_;
  const int64_t limit_;
  const std::shared_ptr<int64_t> used_;
};

}  // namespace primerl
