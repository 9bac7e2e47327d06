// What the programs of bench/ share: they answer each line of standard input with one line of JSON about one round.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "primerl/compute.h"

namespace measure {

inline double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

struct Spent {
  double wall = 0, cpu = 0;
};

/** Seconds that `work` took, and those of all its threads. */
template <class Work>
Spent timed(Work work) {
  const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu};
}

/** Largest resident memory of this process so far, in bytes. */
inline int64_t peak() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return usage.ru_maxrss;
#else
  return usage.ru_maxrss * 1024;
#endif
}

inline primerl::Precision precisionOf(const char* name) {
  for (const auto& [known, precision] : {std::pair<const char*, primerl::Precision>
           {"float32", primerl::Precision::float32}, {"bfloat16", primerl::Precision::bfloat16},
           {"bfloat16x3", primerl::Precision::bfloat16x3}}) {
    if (std::strcmp(name, known) == 0) return precision;
  }
  std::fprintf(stderr, "unknown precision %s\n", name);
  std::exit(2);
}

/** Numbers in ±scale; their values do not change the time. */
inline std::vector<float> numbers(int64_t count, float scale) {
  std::vector<float> values(static_cast<size_t>(count));
  uint64_t state = 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = scale * (float(state >> 40) / float(1 << 23) - 1);
  }
  return values;
}

/** Waits for a line; false at the end of input. */
inline bool asked() {
  char line[256];
  return std::fgets(line, sizeof line, stdin) != nullptr;
}

inline void tell(const Spent& spent) {
  std::printf("{\"ms\":%.4f,\"cpuMs\":%.4f,\"peak\":%lld}\n", spent.wall * 1e3, spent.cpu * 1e3,
              static_cast<long long>(peak()));
  std::fflush(stdout);
}

}  // namespace measure
