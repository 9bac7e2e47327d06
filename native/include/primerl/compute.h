// What a computation runs on: threads, instruction set, and the flag that stops it.
#pragma once

#include "primerl/cancel.h"
#include "primerl/isa.h"
#include "primerl/pool.h"

namespace primerl {

/**
 * What matrix products do with their operands, which are float32 in memory; sums are float32 always.
 * bfloat16: rounds them to it. bfloat16x3: splits them into two bfloat16 numbers and leaves out the product of the two
 * small ones, which has an error of about 2^-16 of a product; for processors that multiply bfloat16 much faster.
 */
enum class Precision { float32, bfloat16, bfloat16x3 };

struct Phases;

struct Compute {
  Pool& pool;
  Isa isa;
  /** null: cannot be cancelled */
  const Cancel* cancel = nullptr;
  Precision precision = Precision::float32;
  /** of the output projection, where a trainer and a sampler must agree most */
  Precision headPrecision = Precision::float32;

  /** null: nobody asks where the time goes */
  Phases* phases = nullptr;

  Compute forHead() const { return {pool, isa, cancel, headPrecision, headPrecision, phases}; }

  void check() const {
    if (cancel != nullptr) cancel->check();
  }
};

}  // namespace primerl
