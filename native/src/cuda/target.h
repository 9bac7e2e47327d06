// What kernels and their launchers are written in: CUDA under nvcc; the same words for a host compiler with the
// emulation (native/test/cuda_emulation.h). A kernel calls nothing but what both have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "primerl/error.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define PRIMERL_DYNAMIC_SHARED(T, name)                          \
  extern __shared__ __align__(16) unsigned char name##Bytes[]; \
  T* name = reinterpret_cast<T*>(name##Bytes)
#else
#include "cuda_emulation.h"
#define PRIMERL_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(emulation::dynamicShared())
#endif

namespace primerl::cuda {

using bf16 = __nv_bfloat16;

constexpr int warpLanes = 32;
constexpr unsigned allLanes = 0xffffffffu;

__host__ __device__ inline float toFloat(float value) { return value; }
__host__ __device__ inline float toFloat(bf16 value) { return __bfloat162float(value); }

template <class T>
__host__ __device__ inline T fromFloat(float value);
template <>
__host__ __device__ inline float fromFloat<float>(float value) {
  return value;
}
template <>
__host__ __device__ inline bf16 fromFloat<bf16>(float value) {
  return __float2bfloat16(value);
}

/** What a launch needs; `stream` is a cudaStream_t. */
struct Context {
  void* stream = nullptr;
  /** null: matrix products run on our own kernel */
  const class Cublas* cublas = nullptr;
};

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
};

/** Blocks of `size` that cover `count`. */
inline int64_t blocksFor(int64_t count, int64_t size) { return (count + size - 1) / size; }

/** Starts a kernel on `threads` threads a block. A grid without blocks starts nothing. */
template <class... Parameters, class... Arguments>
void launch(const Context& context, void (*kernel)(Parameters...), Grid grid, int threads, size_t sharedBytes,
            Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0) return;
  const dim3 blocks{static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1};
  const dim3 block{static_cast<unsigned>(threads), 1, 1};
#if defined(__CUDACC__)
  // More than 48 KiB of shared memory must be asked for.
  cudaError_t error = cudaSuccess;
  if (sharedBytes > 48 * 1024) {
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sharedBytes));
  }
  if (error == cudaSuccess) {
    kernel<<<blocks, block, sharedBytes, static_cast<cudaStream_t>(context.stream)>>>(Parameters(arguments)...);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess) {
    throw Error("ERR_DEVICE", std::string("a CUDA kernel did not start: ") + cudaGetErrorString(error));
  }
#else
  (void)context;
  emulation::run(blocks, block, sharedBytes, [&] { kernel(Parameters(arguments)...); });
#endif
}

}  // namespace primerl::cuda
