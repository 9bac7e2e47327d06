// The part of CUDA that our kernels use, for a host compiler. The threads of a block are fibers, and one block runs at a
// time, so a kernel's own source runs on any machine. A thread runs until it waits; the order in which threads run
// between two waits is the schedule, and a kernel whose result depends on it has a race. What a device leaves undefined
// (barriers and shuffles that not all threads reach) is an error with words here.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(threads)
// One block runs at a time: what its threads share can be one object of the program.
#define __shared__ static

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

/** The order in which the threads of a block run, and its blocks. `shuffled` has another order at each turn. */
enum class Schedule { forward, reverse, strided, shuffled };

constexpr Schedule schedules[] = {Schedule::forward, Schedule::reverse, Schedule::strided, Schedule::shuffled};
const char* name(Schedule schedule);

/** Of all later launches. */
void use(Schedule schedule, unsigned seed = 1);

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** Runs `body` once for each thread of each block. Shared memory begins as bytes of 0xff: floats that are not numbers. */
void run(dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()>& body);

void* dynamicShared();

struct Place {
  const char* file;
  int line;
};

void barrier(Place place);

enum class Exchange { index, xored, down, up, sync };

/** Waits for all lanes of `mask`, then returns the value of the lane that `argument` names. */
uint64_t exchange(Exchange kind, unsigned mask, uint64_t value, int argument, Place place);

template <class T>
T exchanged(Exchange kind, unsigned mask, T value, int argument, Place place) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(kind, mask, bits, argument, place);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace emulation

#define __syncthreads() emulation::barrier({__FILE__, __LINE__})

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  emulation::exchange(emulation::Exchange::sync, mask, 0, 0, {file, line});
}

#define PRIMERL_SHUFFLE(function, kind)                                                                 \
  template <class T>                                                                                    \
  T function(unsigned mask, T value, int argument, const char* file = __builtin_FILE(),                 \
             int line = __builtin_LINE()) {                                                             \
    return emulation::exchanged(emulation::Exchange::kind, mask, value, argument, {file, line});        \
  }
PRIMERL_SHUFFLE(__shfl_sync, index)
PRIMERL_SHUFFLE(__shfl_xor_sync, xored)
PRIMERL_SHUFFLE(__shfl_down_sync, down)
PRIMERL_SHUFFLE(__shfl_up_sync, up)
#undef PRIMERL_SHUFFLE

// A fiber is never stopped between two instructions, so plain reads and writes are atomic.
template <class T>
T atomicAdd(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}

template <class T>
T atomicMax(T* address, T value) {
  const T before = *address;
  if (value > before) *address = value;
  return before;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/** A float without its lower 16 bits, rounded to nearest, ties to even. */
struct __nv_bfloat16 {
  uint16_t bits;
};

inline __nv_bfloat16 __float2bfloat16(float value) {
  const uint32_t bits = __float_as_uint(value);
  if (value != value) return {uint16_t((bits >> 16) | 0x40u)};
  return {uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float __bfloat162float(__nv_bfloat16 value) {
  const uint32_t bits = uint32_t(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
