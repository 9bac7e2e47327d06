#include "prefix_cache.h"

#include <algorithm>

namespace primerl {
namespace {

int64_t commonLength(const int32_t* tokens, int64_t count, const std::vector<int32_t>& others) {
  const int64_t limit = std::min<int64_t>(count, static_cast<int64_t>(others.size()));
  int64_t common = 0;
  while (common < limit && tokens[common] == others[static_cast<size_t>(common)]) ++common;
  return common;
}

}  // namespace

PrefixCache::PrefixCache() = default;
PrefixCache::~PrefixCache() = default;

PrefixCache::Match PrefixCache::best(const Children& children, const int32_t* tokens, int64_t count) {
  Match match{nullptr, 0};
  const auto look = [&](Children::const_iterator at) {
    const int64_t common = commonLength(tokens, count, at->first);
    if (common > match.common) match = {at->second.get(), common};
  };
  const auto after = children.lower_bound(std::vector<int32_t>(tokens, tokens + count));
  if (after != children.end()) look(after);
  if (after != children.begin()) look(std::prev(after));
  return match;
}

/** Calls `visit(node, common)` for each block of the longest known beginning; the last may be known in part. */
template <class Visit>
int64_t PrefixCache::walk(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most, Visit visit) const {
  const auto root = roots_.find(weights);
  if (root == roots_.end()) return 0;
  const Children* children = &root->second;
  int64_t length = 0;
  while (length < most) {
    const int64_t count = std::min(blockTokens, most - length);
    const Match match = best(*children, tokens.data() + length, count);
    if (match.node == nullptr) break;
    visit(*match.node, match.common);
    length += match.common;
    if (match.common < blockTokens) break;
    children = &match.node->children;
  }
  return length;
}

int64_t PrefixCache::known(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most) const {
  return walk(weights, tokens, most, [](Node&, int64_t) {});
}

void PrefixCache::attach(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most, KvCache::State& cache) {
  const uint64_t now = ++clock_;
  cache.length = walk(weights, tokens, most, [&](Node& node, int64_t) {
    node.used = now;
    cache.blocks.push_back(node.block);
  });
  cache.ownsTail = false;
}

void PrefixCache::insert(const WeightsKey& weights, const std::vector<int32_t>& tokens, const KvCache::State& cache, bool tail) {
  const uint64_t now = ++clock_;
  Children* children = &roots_[weights];
  for (int64_t from = 0; from < cache.length; from += blockTokens) {
    const int64_t count = std::min(blockTokens, cache.length - from);
    if (count < blockTokens && !tail) return;
    children = &node(*children, {tokens.begin() + from, tokens.begin() + from + count},
                     cache.blocks[static_cast<size_t>(from / blockTokens)], now)
                    .children;
  }
}

/** Of a begun block only the longest is kept: the owner goes on writing behind what the tree knows of it. */
PrefixCache::Node& PrefixCache::node(Children& children, std::vector<int32_t> tokens, const KvBlockRef& block,
                                     uint64_t now) {
  auto at = children.lower_bound(tokens);
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (at == children.end() || commonLength(tokens.data(), count, at->first) < count) {
    if (at != children.begin()) {
      const auto before = std::prev(at);
      const int64_t length = static_cast<int64_t>(before->first.size());
      if (commonLength(tokens.data(), count, before->first) == length) children.erase(before);
    }
    at = children.emplace(std::move(tokens), std::make_unique<Node>()).first;
    at->second->block = block;
  }
  at->second->used = now;
  return *at->second;
}

int64_t PrefixCache::evict(int64_t count) {
  struct Leaf {
    Children* siblings;
    Children::iterator at;
  };
  std::vector<Leaf> leaves;
  const auto gather = [&](Children& children, const auto& self) -> void {
    for (auto at = children.begin(); at != children.end(); ++at) {
      Node& node = *at->second;
      if (!node.children.empty())
        self(node.children, self);
      else if (node.block.use_count() == 1)
        leaves.push_back({&children, at});
    }
  };
  for (auto& root : roots_) gather(root.second, gather);
  std::sort(leaves.begin(), leaves.end(),
            [](const Leaf& a, const Leaf& b) { return a.at->second->used < b.at->second->used; });
  const int64_t freed = std::min<int64_t>(count, static_cast<int64_t>(leaves.size()));
  for (int64_t i = 0; i < freed; i++) leaves[static_cast<size_t>(i)].siblings->erase(leaves[static_cast<size_t>(i)].at);
  return freed;
}

}  // namespace primerl
