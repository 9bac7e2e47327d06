#include "primerl/pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "primerl/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace primerl {

namespace {

/** Long enough to bridge the gaps between the operations of a layer, short enough to leave an idle core alone. */
constexpr int spins = 4000;

constexpr int partBits = 16;
constexpr uint64_t partMask = (uint64_t(1) << partBits) - 1;

thread_local bool insideTask = false;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Pool::Pool(int threads) {
  if (threads < 1 || threads > 1024) {
    throw Error("ERR_CONFIG", "A pool has 1 to 1024 threads, not " + std::to_string(threads) + ".");
  }
  workers_.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int index = 1; index < threads; index++) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    const std::string got = std::to_string(this->threads());
    end();
    throw Error("ERR_CONFIG", "The system gave only " + got + " of " + std::to_string(threads) +
                                  " threads. Ask for fewer, or raise the limit of threads.");
  }
}

Pool::~Pool() { end(); }

void Pool::end() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Pool::runPart(int64_t part) {
  insideTask = true;
  try {
    call_(body_, count_ * part / parts_, count_ * (part + 1) / parts_);
  } catch (...) {
    std::lock_guard<std::mutex> lock(failureMutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  insideTask = false;
  unfinished_.fetch_sub(1, std::memory_order_acq_rel);
}

void Pool::takeParts(uint64_t job) {
  uint64_t state = state_.load(std::memory_order_acquire);
  while (state >> partBits == job && (state & partMask) != 0) {
    if (state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      runPart(parts_ - static_cast<int64_t>(state & partMask));
      state = state_.load(std::memory_order_acquire);
    }
  }
}

void Pool::work() {
  uint64_t seen = 0;
  const auto news = [&] { return stopping_.load() || state_.load(std::memory_order_acquire) >> partBits != seen; };
  for (;;) {
    for (int spin = 0; spin < spins && !news(); spin++) pause();
    if (!news()) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleeping_++;
      wake_.wait(lock, news);
      sleeping_--;
    }
    if (stopping_.load()) return;
    seen = state_.load(std::memory_order_acquire) >> partBits;
    takeParts(seen);
  }
}

void Pool::splitRange(int64_t count, int64_t grain, Call call, void* body) {
  if (count <= 0) return;
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  const int64_t parts = std::min<int64_t>(threads(), useful);
  if (parts == 1 || insideTask) {
    call(body, 0, count);
    return;
  }
  call_ = call;
  body_ = body;
  count_ = count;
  parts_ = parts;
  unfinished_.store(parts, std::memory_order_relaxed);
  const uint64_t job = (state_.load(std::memory_order_relaxed) >> partBits) + 1;
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    state_.store(job << partBits | static_cast<uint64_t>(parts), std::memory_order_release);
    wake = sleeping_ > 0;
  }
  if (wake) wake_.notify_all();
  takeParts(job);
  for (int spin = 0; unfinished_.load(std::memory_order_acquire) != 0; spin++) {
    if (spin < spins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (failure_) {
    std::exception_ptr failure = failure_;
    failure_ = nullptr;
    std::rethrow_exception(failure);
  }
}

}  // namespace primerl
