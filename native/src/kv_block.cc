#include "kv_block.h"

#include <algorithm>
#include <string>

#include "primerl/error.h"

namespace primerl {

KvShape::KvShape(const ModelConfig& config, Isa isa)
    : kernel(kernels<float>(isa)), streams(config.layers * config.kvHeads), headDim(config.headDim),
      width((config.headDim + kernel.lanes - 1) / kernel.lanes * kernel.lanes) {}

KvBlock::KvBlock(KvMemory& memory) : shape_(memory.shape_), used_(memory.used_) {
  data_.need(shape_.elements());
  ++*used_;
}

KvBlock::~KvBlock() { --*used_; }

KvMemory::KvMemory(const ModelConfig& config, Isa isa, int64_t limitBlocks)
    : shape_(config, isa), limit_(limitBlocks), used_(std::make_shared<int64_t>(0)) {}

KvBlockRef KvMemory::take() {
  if (used() >= limit_) {
    throw Error("ERR_OUT_OF_MEMORY", "Keys and values take " + std::to_string(bytes()) + " bytes, which is their limit.");
  }
  return std::make_shared<KvBlock>(*this);
}

KvBlockRef KvMemory::copy(const KvBlock& from) {
  KvBlockRef block = take();
  std::copy_n(from.data_.data(), shape_.elements(), block->data_.data());
  return block;
}

}  // namespace primerl
