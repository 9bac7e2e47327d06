// Ranges are split statically and tasks never share an output, so a result does not depend on the number of threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace primerl {

/**
 * Threads that wait for work: a bounded spin, then sleep. The calling thread works too and never waits for a thread
 * that has not begun. One thread at a time may call; a call from inside a task runs on the spot. The first exception of
 * a task is thrown to the caller once all are done.
 */
class Pool {
 public:
  explicit Pool(int threads);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /** Calls `task(begin, end)` for at most one range per thread; each is at least `grain` long if it can be. */
  template <class Task>
  void parallelFor(int64_t count, Task&& task, int64_t grain = 1) {
    using Body = std::remove_reference_t<Task>;
    splitRange(count, grain, [](void* body, int64_t begin, int64_t end) { (*static_cast<Body*>(body))(begin, end); },
               const_cast<void*>(static_cast<const void*>(&task)));
  }

  /** Calls `task(index)` once for each index; idle threads take the next one. For tasks of uneven cost. */
  template <class Task>
  void parallelTasks(int64_t count, Task&& task) {
    std::atomic<int64_t> next{0};
    auto take = [&](int64_t, int64_t) {
      for (int64_t index = next.fetch_add(1); index < count; index = next.fetch_add(1)) task(index);
    };
    const int64_t workers = count < threads() ? count : threads();
    parallelFor(workers, take);
  }

 private:
  using Call = void (*)(void* body, int64_t begin, int64_t end);

  void splitRange(int64_t count, int64_t grain, Call call, void* body);
  void work();
  /** Stops and joins the workers. */
  void end();
  /** Takes parts of the job with this number until none is left. */
  void takeParts(uint64_t job);
  void runPart(int64_t part);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  int sleeping_ = 0;
  std::atomic<bool> stopping_{false};

  /** number of the job in the upper bits, its parts not yet taken in the lower 16 */
  std::atomic<uint64_t> state_{0};
  std::atomic<int64_t> unfinished_{0};
  // of the running job; whoever has taken a part of it may read them
  Call call_ = nullptr;
  void* body_ = nullptr;
  int64_t count_ = 0;
  int64_t parts_ = 0;

  std::mutex failureMutex_;
  std::exception_ptr failure_;
};

}  // namespace primerl
