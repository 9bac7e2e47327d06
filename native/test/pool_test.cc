#include "primerl/pool.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

#include "expect.h"
#include "primerl/cancel.h"

using namespace primerl;

namespace {

void everyIndexOnce(int threads) {
  Pool pool(threads);
  for (const int64_t count : {0, 1, 2, 3, 7, 100, 1001}) {
    for (const int64_t grain : {1, 10, 5000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      pool.parallelFor(
          count,
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; i++) hits[static_cast<size_t>(i)]++;
          },
          grain);
      std::vector<int> taken(static_cast<size_t>(count), 0);
      pool.parallelTasks(count, [&](int64_t i) { taken[static_cast<size_t>(i)]++; });
      const std::vector<int> ones(static_cast<size_t>(count), 1);
      check::that(hits == ones && taken == ones, "every index once, " + std::to_string(threads) + " threads");
    }
  }
}

void manySmallJobs() {
  Pool pool(4);
  std::vector<int64_t> sums(64, 0);
  for (int round = 0; round < 5000; round++) {
    pool.parallelFor(64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) sums[static_cast<size_t>(i)] += round;
    });
  }
  check::that(sums == std::vector<int64_t>(64, 4999 * 5000 / 2), "jobs in quick succession do not mix");
}

void nestedCallRunsOnTheSpot() {
  Pool pool(3);
  std::vector<int> hits(40, 0);
  pool.parallelFor(4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      pool.parallelFor(10, [&](int64_t from, int64_t to) {
        for (int64_t j = from; j < to; j++) hits[static_cast<size_t>(10 * i + j)]++;
      });
    }
  });
  check::that(hits == std::vector<int>(40, 1), "a nested call covers its range");
}

void exceptionReachesTheCaller() {
  Pool pool(3);
  for (int round = 0; round < 50; round++) {
    check::throws(
        "ERR_TEST", [&] { pool.parallelTasks(9, [&](int64_t i) { if (i == 5) throw Error("ERR_TEST", "five"); }); },
        "an exception in a task");
  }
  int64_t sum = 0;
  pool.parallelFor(1, [&](int64_t, int64_t) { sum = 1; });
  check::that(sum == 1, "the pool works after an exception");
  check::throws("ERR_CONFIG", [] { Pool none(0); }, "a pool of no threads");
}

/** Stacks are address space: with little of it left, a thread or two can start and the rest cannot. */
void threadsThatCannotStart() {
  // Valgrind lives in the same address space, and would be the first to find none.
  const char* const preloaded = std::getenv("LD_PRELOAD");
  if (preloaded != nullptr && std::strstr(preloaded, "vgpreload") != nullptr) return;
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlimit before{};
  long pages = 0;
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  if (statm == nullptr || std::fscanf(statm, "%ld", &pages) != 1 || getrlimit(RLIMIT_AS, &before) != 0) return;
  std::fclose(statm);
  rlimit little = before;
  little.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t(64) << 20);
  if (setrlimit(RLIMIT_AS, &little) != 0) return;
  check::throws("ERR_CONFIG", [] { Pool many(1000); }, "more threads than the system gives");
  setrlimit(RLIMIT_AS, &before);
#endif
}

void cancelIsSticky() {
  Cancel cancel;
  cancel.check();
  cancel.cancel();
  check::throws("ERR_CANCELLED", [&] { cancel.check(); }, "a cancelled check");
  check::that(cancel.cancelled(), "cancelled stays");
}

}  // namespace

int main() {
  for (const int threads : {1, 2, 5}) everyIndexOnce(threads);
  manySmallJobs();
  nestedCallRunsOnTheSpot();
  exceptionReachesTheCaller();
  threadsThatCannotStart();
  cancelIsSticky();
  return check::close("pool");
}
