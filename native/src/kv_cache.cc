#include "kv_cache.h"

#include <limits>
#include <string>

#include "primerl/error.h"

namespace primerl {

int64_t KvCache::State::missing(int64_t count) const {
  return blocksFor(count) - static_cast<int64_t>(blocks.size()) + (copiesTail(count) ? 1 : 0);
}

void KvCache::State::reserve(int64_t count) {
  if (copiesTail(count)) {
    KvBlockRef& tail = blocks[static_cast<size_t>(length / blockTokens)];
    tail = memory->copy(*tail);
  }
  if (count > length) ownsTail = true;
  while (static_cast<int64_t>(blocks.size()) < blocksFor(count)) blocks.push_back(memory->take());
}

KvCache::KvCache(const ModelConfig& config, Isa isa)
    : KvCache(std::make_shared<KvMemory>(config, isa, std::numeric_limits<int64_t>::max())) {}
KvCache::KvCache(std::shared_ptr<KvMemory> memory) : state_(std::make_unique<State>(std::move(memory))) {}
KvCache::~KvCache() = default;
KvCache::KvCache(KvCache&&) noexcept = default;
KvCache& KvCache::operator=(KvCache&&) noexcept = default;

int64_t KvCache::length() const { return state_->length; }

int64_t KvCache::bytes() const {
  return static_cast<int64_t>(state_->blocks.size()) * state_->memory->shape().bytes();
}

void KvCache::clear() {
  state_->blocks.clear();
  state_->length = 0;
}

KvCache KvCache::fork(int64_t length) const {
  if (length < 0 || length > state_->length) {
    throw Error("ERR_STATE", "A cache of " + std::to_string(state_->length) + " tokens has no prefix of " +
                                 std::to_string(length) + ".");
  }
  KvCache copy(state_->memory);
  copy.state_->blocks.assign(state_->blocks.begin(), state_->blocks.begin() + blocksFor(length));
  copy.state_->length = length;
  copy.state_->ownsTail = false;
  return copy;
}

}  // namespace primerl
