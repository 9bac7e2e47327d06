#include "kv_cache.h"

#include <algorithm>
#include <string>

#include "primerl/error.h"

namespace primerl {

namespace {

constexpr int64_t smallest = 64;

}  // namespace

KvCache::State::State(const ModelConfig& config, Isa isa)
    : kernel(kernels<float>(isa)), blocks(config.layers * config.kvHeads), headDim(config.headDim),
      width(paddedWidth(kernel, config.headDim)) {}

void KvCache::State::reserve(int64_t count) {
  if (count <= capacity) return;
  const int64_t wanted = std::max({smallest, 2 * capacity, count});
  const int64_t panel = kernel.tileColumns;
  State larger = State(*this, (wanted + panel - 1) / panel * panel);
  larger.copyFrom(*this, length);
  memory = std::move(larger.memory);
  capacity = larger.capacity;
}

KvCache::State::State(const State& shape, int64_t room)
    : kernel(shape.kernel), blocks(shape.blocks), headDim(shape.headDim), width(shape.width), capacity(room) {
  memory.need(blocks * capacity * (headDim + width));
}

void KvCache::State::copyFrom(State& other, int64_t count) {
  const int64_t panels = panelElements(kernel, count, headDim);
  for (int64_t block = 0; block < blocks; block++) {
    std::copy_n(other.keys(block), panels, keys(block));
    std::copy_n(other.values(block), count * width, values(block));
  }
  length = count;
}

KvCache::KvCache(const ModelConfig& config, Isa isa) : state_(std::make_unique<State>(config, isa)) {}
KvCache::KvCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvCache::~KvCache() = default;
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;

int64_t KvCache::length() const { return state_->length; }

int64_t KvCache::bytes() const { return state_->memory.size() * static_cast<int64_t>(sizeof(float)); }

KvCache KvCache::fork(int64_t length) const {
  if (length < 0 || length > state_->length) {
    throw Error("ERR_STATE", "A cache of " + std::to_string(state_->length) + " tokens has no prefix of " +
                                 std::to_string(length) + ".");
  }
  auto copy = std::make_unique<State>(*state_, 0);
  copy->reserve(length);
  copy->copyFrom(*state_, length);
  return KvCache(std::move(copy));
}

}  // namespace primerl
