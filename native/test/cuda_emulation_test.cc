// What the emulation promises: schedules that show races, and words for what a device leaves undefined.
#include "cuda_emulation.h"

#include <set>

#include "check.h"

using emulation::Schedule;

namespace {

constexpr unsigned everyLane = 0xffffffffu;

std::vector<float> values(int count) {
  std::vector<float> list;
  for (int i = 0; i < count; i++) list.push_back(float(i * i % 97));
  return list;
}

void reverseKernel(const float* in, float* out, bool synchronised) {
  __shared__ float row[256];
  row[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  if (synchronised) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
  if (synchronised) __syncthreads();
}

std::vector<float> reversed(Schedule schedule, bool synchronised) {
  const std::vector<float> in = values(768);
  std::vector<float> out(in.size());
  emulation::use(schedule, 3);
  emulation::run({3}, {256}, 0, [&] { reverseKernel(in.data(), out.data(), synchronised); });
  return out;
}

/** The same kernel with and without its barrier: only the right one has one result under all schedules. */
void racesShow() {
  std::set<std::vector<float>> right, racy;
  for (const Schedule schedule : emulation::schedules) {
    right.insert(reversed(schedule, true));
    racy.insert(reversed(schedule, false));
  }
  check::that(right.size() == 1, "a kernel without a race has one result");
  check::that(racy.size() > 1, "a missing barrier shows as results that differ between schedules");
  std::vector<float> expected;
  const std::vector<float> in = values(768);
  for (int block = 0; block < 3; block++) {
    for (int i = 255; i >= 0; i--) expected.push_back(in[size_t(block * 256 + i)]);
  }
  check::that(*right.begin() == expected, "blocks and threads have their indices");
}

void shuffles() {
  for (const Schedule schedule : emulation::schedules) {
    emulation::use(schedule);
    std::vector<float> sums(96), downs(96), ups(96), indexed(96), halves(96);
    emulation::run({1}, {96}, 0, [&] {
      const unsigned t = threadIdx.x, lane = t % 32;
      float sum = float(t);
      for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(everyLane, sum, step);
      sums[t] = sum;
      downs[t] = __shfl_down_sync(everyLane, float(t), 3);
      ups[t] = __shfl_up_sync(everyLane, float(t), 3);
      indexed[t] = __shfl_sync(everyLane, float(t), 7);
      // each half of a warp on its own
      if (lane < 16) halves[t] = __shfl_xor_sync(0x0000ffffu, float(t), 1);
      else halves[t] = __shfl_xor_sync(0xffff0000u, float(t), 2);
      __syncwarp();
    });
    bool fine = true;
    for (unsigned t = 0; t < 96; t++) {
      const unsigned lane = t % 32, first = t - lane;
      fine = fine && sums[t] == float(32 * first + 496) && indexed[t] == float(first + 7);
      fine = fine && downs[t] == float(lane < 29 ? t + 3 : t) && ups[t] == float(lane >= 3 ? t - 3 : t);
      fine = fine && halves[t] == float(t ^ (lane < 16 ? 1u : 2u));
    }
    check::that(fine, std::string("shuffles, ") + emulation::name(schedule));
  }
}

void sharedMemoryAndAtomics() {
  for (const Schedule schedule : emulation::schedules) {
    emulation::use(schedule);
    int total = 0, largest = 0, poisoned = 0;
    emulation::run({5}, {64}, 64 * sizeof(float), [&] {
      float* shared = static_cast<float*>(emulation::dynamicShared());
      if (shared[threadIdx.x] != shared[threadIdx.x]) atomicAdd(&poisoned, 1);
      shared[threadIdx.x] = float(threadIdx.x);
      __syncthreads();
      atomicAdd(&total, int(shared[(threadIdx.x + 1) % 64]));
      atomicMax(&largest, int(blockIdx.x * 100 + threadIdx.x));
    });
    check::that(total == 5 * 2016 && largest == 463, "atomics");
    check::that(poisoned == 5 * 64, "shared memory that was not written is not a number, in every block");
  }
}

void fails(const std::string& words, dim3 block, const std::function<void()>& body) {
  for (const Schedule schedule : emulation::schedules) {
    emulation::use(schedule);
    try {
      emulation::run({2}, block, 0, body);
      check::that(false, "nothing thrown, expected: " + words);
    } catch (const emulation::Error& error) {
      check::that(std::string(error.what()).find(words) != std::string::npos, words + ", but: " + error.what());
    }
  }
}

void wrongKernels() {
  fails("a barrier is not reached by all threads", {64}, [] {
    if (threadIdx.x < 40) __syncthreads();
  });
  fails("a barrier is not reached by all threads", {64}, [] {
    if (threadIdx.x % 2 == 0) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  fails("lanes disagree on a shuffle or its mask", {32}, [] {
    __shfl_xor_sync(threadIdx.x == 5 ? 0x7fffffffu : everyLane, 1.0f, 1);
  });
  fails("of its mask has ended", {32}, [] {
    if (threadIdx.x != 9) __shfl_xor_sync(everyLane, 1.0f, 1);
  });
  fails("which the block lacks", {20}, [] { __shfl_xor_sync(everyLane, 1.0f, 1); });
  fails("is not in its own mask", {32}, [] { __shfl_xor_sync(0x0000ffffu & ~(1u << (threadIdx.x % 32)), 1.0f, 1); });
  fails("which is not in its mask", {32}, [] {
    if (threadIdx.x < 16) __shfl_xor_sync(0x0000ffffu, 1.0f, 16);
  });
  fails("no thread can go on", {32}, [] {
    if (threadIdx.x < 16) __syncthreads();
    else __shfl_xor_sync(everyLane, 1.0f, 1);
  });
  fails("a block has 2048 threads", {2048}, [] {});
  // and the machine is fit for the next kernel
  check::that(reversed(Schedule::forward, true).size() == 768, "a failed kernel leaves nothing behind");
}

void bfloatRounds() {
  const auto rounded = [](float x) { return __bfloat162float(__float2bfloat16(x)); };
  check::that(rounded(1.0f) == 1 && rounded(-2.5f) == -2.5f, "short numbers stay");
  check::that(rounded(1.00390625f) == 1 && rounded(1.01171875f) == 1.015625f, "ties go to even");
  check::that(std::isinf(rounded(3.4e38f)) && std::isnan(rounded(NAN)), "beyond the largest is infinite");
}

}  // namespace

int main() {
  racesShow();
  shuffles();
  sharedMemoryAndAtomics();
  wrongKernels();
  bfloatRounds();
  return check::close("cuda emulation");
}
