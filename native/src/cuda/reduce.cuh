// Reductions in a fixed order: a sum has the same bits each time.
#pragma once

#include "cuda/runtime.h"
#include "cuda/target.h"

namespace primerl::cuda {

template <class T>
__device__ inline T warpSum(T value) {
  for (int step = warpLanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(allLanes, value, step);
  return value;
}

__device__ inline float warpMax(float value) {
  for (int step = warpLanes / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(allLanes, value, step));
  return value;
}

/** Sum over the block, known to all its threads, which are whole warps. `scratch` holds one value for each warp. */
template <class T>
__device__ inline T blockSum(T value, T* scratch) {
  const int lane = threadIdx.x % warpLanes, warp = threadIdx.x / warpLanes, warps = blockDim.x / warpLanes;
  value = warpSum(value);
  __syncthreads();  // whoever still reads the last result is done
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  T total = scratch[0];
  for (int i = 1; i < warps; i++) total += scratch[i];
  return total;
}

__device__ inline float blockMax(float value, float* scratch) {
  const int lane = threadIdx.x % warpLanes, warp = threadIdx.x / warpLanes, warps = blockDim.x / warpLanes;
  value = warpMax(value);
  __syncthreads();
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  float largest = scratch[0];
  for (int i = 1; i < warps; i++) largest = fmaxf(largest, scratch[i]);
  return largest;
}

/** One column of each lane; rows of a slice are shared among the warps of a block. */
constexpr int columnWarps = 8;
constexpr int64_t rowsPerSlice = 256;

/** partial[slice][column] = sum of entry(row, column) over the rows of slice blockIdx.y. */
template <class Entry>
__global__ void columnSumsOfSlices(Entry entry, int64_t rows, int64_t columns, float* partial) {
  __shared__ float sums[columnWarps][warpLanes];
  const int lane = threadIdx.x % warpLanes, warp = threadIdx.x / warpLanes;
  const int64_t column = int64_t(blockIdx.x) * warpLanes + lane;
  const int64_t begin = int64_t(blockIdx.y) * rowsPerSlice;
  const int64_t end = begin + rowsPerSlice < rows ? begin + rowsPerSlice : rows;
  float sum = 0;
  if (column < columns) {
    for (int64_t row = begin + warp; row < end; row += columnWarps) sum += entry(row, column);
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && column < columns) {
    for (int i = 1; i < columnWarps; i++) sum += sums[i][lane];
    partial[int64_t(blockIdx.y) * columns + column] = sum;
  }
  __syncthreads();
}

static __global__ void addSlices(const float* partial, int64_t slices, int64_t columns, float* out) {
  const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (int64_t slice = 0; slice < slices; slice++) sum += partial[slice * columns + column];
  out[column] += sum;
}

/** out[column] += sum over rows of entry(row, column). */
template <class Entry>
void addColumnSums(const Context& context, Entry entry, int64_t rows, int64_t columns, DeviceBuffer<float>& scratch,
                   float* out) {
  const int64_t slices = blocksFor(rows, rowsPerSlice);
  float* partial = scratch.need(slices * columns);
  launch(context, columnSumsOfSlices<Entry>, {blocksFor(columns, warpLanes), slices}, columnWarps * warpLanes, 0, entry,
         rows, columns, partial);
  launch(context, addSlices, {blocksFor(columns, 128)}, 128, 0, partial, slices, columns, out);
}

}  // namespace primerl::cuda
