// A cancelled computation stops at its next check by throwing; nothing clears a cancellation.
#pragma once

#include <atomic>

#include "primerl/error.h"

namespace primerl {

class Cancel {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }

  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

  void check() const {
    if (cancelled()) throw Error("ERR_CANCELLED", "The computation was cancelled.");
  }

 private:
  std::atomic<bool> cancelled_{false};
};

}  // namespace primerl
