// Beginnings of sequences whose keys and values are known, as a tree of blocks under the weights that computed them. New
// weights and other adapters begin a tree of their own, so that nothing computed with others is ever taken over.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kv_cache.h"

namespace primerl {

/** Weights by name: the adapter on the model (0: none), and the version of both together. */
struct WeightsKey {
  uint64_t adapter = 0;
  uint64_t version = 0;
  bool operator<(const WeightsKey& other) const {
    return adapter != other.adapter ? adapter < other.adapter : version < other.version;
  }
  bool operator==(const WeightsKey& other) const { return adapter == other.adapter && version == other.version; }
};

class PrefixCache {
 public:
  PrefixCache();
  ~PrefixCache();

  /** Of the first `most` tokens, how many are known. */
  int64_t known(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most) const;

  /** Gives an empty cache what is known of the first `most` tokens; blocks are shared until they are written. */
  void attach(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most, KvCache::State& cache);

  /** Remembers the whole blocks that `cache` holds of `tokens`, and with `tail` the last, begun one too. */
  void insert(const WeightsKey& weights, const std::vector<int32_t>& tokens, const KvCache::State& cache, bool tail);

  /** Forgets up to `count` blocks that no sequence holds, those that were not used for the longest time; says how many. */
  int64_t evict(int64_t count);

  /** Forgets all weights for which `used` is false. */
  template <class Used>
  void keepOnly(Used used) {
    for (auto at = roots_.begin(); at != roots_.end();) at = used(at->first) ? std::next(at) : roots_.erase(at);
  }

  void clear() { roots_.clear(); }

 private:
  struct Node;
  using Children = std::map<std::vector<int32_t>, std::unique_ptr<Node>>;
  /** Children are in the order of their tokens, so that what has most in common with a sequence is beside its place. */
  struct Node {
    KvBlockRef block;
    Children children;
    uint64_t used = 0;
  };
  struct Match {
    Node* node;
    int64_t common;
  };
  static Node& node(Children& children, std::vector<int32_t> tokens, const KvBlockRef& block, uint64_t now);
  static Match best(const Children& children, const int32_t* tokens, int64_t count);
  template <class Visit>
  int64_t walk(const WeightsKey& weights, const std::vector<int32_t>& tokens, int64_t most, Visit visit) const;

  std::map<WeightsKey, Children> roots_;
  uint64_t clock_ = 0;
};

}  // namespace primerl
