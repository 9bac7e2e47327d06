// How work is cut for threads: a range is long enough that handing it over pays.
#pragma once

#include <algorithm>
#include <cstdint>

#include "primerl/compute.h"

namespace primerl {

/** Elements of a cheap operation that are worth another thread. */
constexpr int64_t grainElements = 1 << 14;

/** Calls `task(begin, end)` on ranges of rows of `width` elements each. */
template <class Task>
void forRows(const Compute& compute, int64_t count, int64_t width, Task task) {
  compute.pool.parallelFor(count, task, std::max<int64_t>(1, grainElements / std::max<int64_t>(1, width)));
}

/** Calls `task(begin, end)` on ranges of columns; each thread walks all `count` rows, so sums have one order. */
template <class Task>
void forColumns(const Compute& compute, int64_t count, int64_t width, Task task) {
  compute.pool.parallelFor(width, task, std::max<int64_t>(16, grainElements / std::max<int64_t>(1, count)));
}

}  // namespace primerl
