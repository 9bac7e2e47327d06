// Randomness as a pure function of a seed and a counter, with the same bits on every machine.
#pragma once
#include <cstdint>

#include "primerl/everywhere.h"

namespace primerl {

PRIMERL_EVERYWHERE inline uint64_t mixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// 64 bits for place `counter` of stream (seed, stream).
PRIMERL_EVERYWHERE inline uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t counter) {
  constexpr uint64_t golden = 0x9e3779b97f4a7c15ULL;
  const uint64_t key = mixBits(mixBits(seed + golden) + stream * golden + 1);
  return mixBits(key + (counter + 1) * golden);
}

// Uniform in [0, 1), a multiple of 2^-53.
PRIMERL_EVERYWHERE inline double uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  return static_cast<double>(randomBits(seed, stream, counter) >> 11) * 0x1.0p-53;
}

// The stream of draws of tokens from a request's seed; 0 is the stream of nothing else.
constexpr uint64_t samplingStream = 0x73616d706c65ULL;

// Entries 2·pair and 2·pair + 1 of a stream of independent standard normal numbers (Box and Muller, 1958).
// Built from IEEE additions, multiplications, divisions and square roots only, never from a platform's libm.
void normalPair(uint64_t seed, uint64_t stream, uint64_t pair, double out[2]);

}  // namespace primerl
