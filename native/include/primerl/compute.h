// What a computation runs on: threads, instruction set, and the flag that stops it.
#pragma once

#include "primerl/cancel.h"
#include "primerl/isa.h"
#include "primerl/pool.h"

namespace primerl {

struct Compute {
  Pool& pool;
  Isa isa;
  /** null: cannot be cancelled */
  const Cancel* cancel = nullptr;

  void check() const {
    if (cancel != nullptr) cancel->check();
  }
};

}  // namespace primerl
