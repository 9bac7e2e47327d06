// What is remembered of sequences: the longest common beginning is found, to the token, and the oldest is forgotten first.
#include "prefix_cache.h"

#include "expect.h"
#include "models.h"

using namespace primerl;

namespace {

struct Memory {
  std::shared_ptr<KvMemory> blocks = std::make_shared<KvMemory>(models::base(), detectIsa(), 1000);
  PrefixCache prefixes;

  using Tokens = std::vector<int32_t>;

  /** Remembers a sequence that someone has read. */
  void remember(uint64_t version, const Tokens& tokens, bool tail = true) {
    KvCache cache(blocks);
    cache.state().reserve(static_cast<int64_t>(tokens.size()));
    cache.state().length = static_cast<int64_t>(tokens.size());
    prefixes.insert({0, version}, tokens, cache.state(), tail);
  }

  int64_t known(uint64_t version, const Tokens& tokens) const {
    return prefixes.known({0, version}, tokens, static_cast<int64_t>(tokens.size()));
  }
};

Memory::Tokens counting(int32_t from, size_t count) {
  Memory::Tokens tokens(count);
  for (size_t i = 0; i < count; i++) tokens[i] = from + static_cast<int32_t>(i);
  return tokens;
}

void theLongestBeginningIsFound() {
  current = "the longest common beginning is found, to the token";
  check::Random random(3);
  Memory memory;
  std::vector<Memory::Tokens> all;
  for (int i = 0; i < 200; i++) {
    Memory::Tokens tokens;
    // few different tokens, so that beginnings are shared
    for (int t = random.below(120) + 1; t > 0; t--) tokens.push_back(random.below(40) == 0 ? 1 : 0);
    int64_t expected = 0;
    for (const Memory::Tokens& other : all) {
      const size_t limit = std::min(tokens.size(), other.size());
      size_t common = 0;
      while (common < limit && tokens[common] == other[common]) common++;
      expected = std::max(expected, static_cast<int64_t>(common));
    }
    CHECK(memory.known(1, tokens) == expected);
    CHECK(memory.known(2, tokens) == 0);
    memory.remember(1, tokens);
    CHECK(memory.known(1, tokens) == static_cast<int64_t>(tokens.size()));
    all.push_back(std::move(tokens));
  }
  memory.prefixes.clear();
  CHECK(memory.blocks->used() == 0);
}

void begunBlocksGrow() {
  current = "of a begun block only the longest is kept";
  Memory memory;
  const Memory::Tokens tokens = counting(0, 50);
  for (size_t count = 33; count <= 50; count++) memory.remember(1, {tokens.begin(), tokens.begin() + long(count)});
  CHECK(memory.blocks->used() == 2);
  memory.remember(1, {tokens.begin(), tokens.begin() + 40});
  CHECK(memory.known(1, tokens) == 50 && memory.blocks->used() == 2);
  memory.remember(1, counting(100, 40), false);
  CHECK(memory.known(1, counting(100, 40)) == 32);
}

void theOldestIsForgottenFirst() {
  current = "the oldest that nobody holds is forgotten first, ends before beginnings";
  Memory memory;
  const Memory::Tokens a = counting(0, 96), b = counting(1000, 64), c = counting(2000, 32);
  memory.remember(1, a);
  memory.remember(1, b);
  memory.remember(1, c);
  KvCache held(memory.blocks);
  memory.prefixes.attach({0, 1}, b, 64, held.state());
  CHECK(held.length() == 64);
  CHECK(memory.prefixes.evict(1) == 1);
  CHECK(memory.known(1, a) == 64 && memory.known(1, c) == 32);
  KvCache again(memory.blocks);
  memory.prefixes.attach({0, 1}, a, 64, again.state());
  again.clear();
  CHECK(memory.prefixes.evict(1) == 1);
  CHECK(memory.known(1, c) == 0 && memory.known(1, a) == 64);
  while (memory.prefixes.evict(10) > 0) continue;
  CHECK(memory.known(1, a) == 0 && memory.known(1, b) == 64 && memory.blocks->used() == 2);
}

}  // namespace

int main() {
  theLongestBeginningIsFound();
  begunBlocksGrow();
  theOldestIsForgottenFirst();
  return check::close("prefixes");
}
