// A sequence's keys and values as a table of blocks, which other sequences may share: whoever took a block writes behind
// what it holds, and everyone else copies it before writing.
#pragma once

#include <vector>

#include "kv_block.h"
#include "primerl/decode.h"

namespace primerl {

struct KvCache::State {
  explicit State(std::shared_ptr<KvMemory> from) : memory(std::move(from)) {}

  std::shared_ptr<KvMemory> memory;
  std::vector<KvBlockRef> blocks;
  int64_t length = 0;
  /** false: the last block, when it is begun, is another sequence's */
  bool ownsTail = true;

  /** Blocks to take before `count` tokens in all can be held, that of a copy included. */
  int64_t missing(int64_t count) const;
  /** Room for `count` tokens in all, in blocks of its own from `length` on; what is held stays. */
  void reserve(int64_t count);
  bool copiesTail(int64_t count) const { return !ownsTail && count > length && length % blockTokens != 0; }
};

}  // namespace primerl
