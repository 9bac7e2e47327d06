// Randomness as a pure function of a seed and a counter, with the same bits on every machine.
#pragma once
#include <cstdint>

namespace primerl {

// 64 bits for place `counter` of stream (seed, stream).
uint64_t randomBits(uint64_t seed, uint64_t stream, uint64_t counter);

// Uniform in [0, 1), a multiple of 2^-53.
double uniform(uint64_t seed, uint64_t stream, uint64_t counter);

// Entries 2·pair and 2·pair + 1 of a stream of independent standard normal numbers (Box and Muller, 1958).
// Built from IEEE additions, multiplications, divisions and square roots only, never from a platform's libm.
void normalPair(uint64_t seed, uint64_t stream, uint64_t pair, double out[2]);

}  // namespace primerl
