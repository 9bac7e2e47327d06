// Where the time of a pass goes, for whoever asks.
#pragma once

#include <array>
#include <chrono>

#include "primerl/compute.h"

namespace primerl {

enum class Phase { projections, attention, feedForward, head, optimiser };
constexpr int phaseCount = 5;

/** Seconds of wall time of each phase since they were last read, forward and backward. */
struct Phases {
  std::array<double, phaseCount> forward{}, backward{};
};

/** Adds its own lifetime to a phase. */
class PhaseTimer {
 public:
  PhaseTimer(const Compute& compute, Phase phase, bool backward)
      : seconds_(compute.phases == nullptr ? nullptr
                 : backward                ? &compute.phases->backward[static_cast<size_t>(phase)]
                                           : &compute.phases->forward[static_cast<size_t>(phase)]),
        started_(std::chrono::steady_clock::now()) {}
  ~PhaseTimer() {
    if (seconds_ == nullptr) return;
    *seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace primerl
