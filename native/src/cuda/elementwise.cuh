// Embedding, bias, activation, residual: a thread has one element.
#pragma once

#include "cuda/reduce.cuh"

namespace primerl::cuda {

constexpr int elementThreads = 256;

__device__ inline int64_t element() { return int64_t(blockIdx.x) * blockDim.x + threadIdx.x; }

inline Grid elementGrid(int64_t count) { return {blocksFor(count, elementThreads)}; }

/** to[i] = from[i], rounded to the type of `to` */
template <class From, class To>
__global__ void convertKernel(int64_t count, const From* from, To* to) {
  const int64_t i = element();
  if (i < count) to[i] = fromFloat<To>(toFloat(from[i]));
}

template <class From, class To>
void convert(const Context& context, int64_t count, const From* from, To* to) {
  launch(context, convertKernel<From, To>, elementGrid(count), elementThreads, 0, count, from, to);
}

/** y[i] = table[rows[i]]; rows of `width` */
template <class T>
__global__ void gatherKernel(int64_t count, int64_t width, const int32_t* rows, const T* table, T* y) {
  const int64_t i = element();
  if (i < count * width) y[i] = table[rows[i / width] * width + i % width];
}

template <class T>
void gather(const Context& context, int64_t count, int64_t width, const int32_t* rows, const T* table, T* y) {
  launch(context, gatherKernel<T>, elementGrid(count * width), elementThreads, 0, count, width, rows, table, y);
}

/** Sources with one destination lie together: those of destination d are order[starts[d]] to order[starts[d + 1]]. */
struct ScatterPlan {
  int64_t destinations;
  const int32_t* rows;
  const int32_t* starts;
  const int32_t* order;
};

/** table[rows[d]] += sum of dy[i] over the sources of d, in their order */
static __global__ void scatterAddKernel(ScatterPlan plan, int64_t width, const float* dy, float* table) {
  const int64_t i = element();
  if (i >= plan.destinations * width) return;
  const int64_t destination = i / width, column = i % width;
  float sum = 0;
  for (int32_t at = plan.starts[destination]; at < plan.starts[destination + 1]; at++) {
    sum += dy[plan.order[at] * width + column];
  }
  table[plan.rows[destination] * width + column] += sum;
}

inline void scatterAdd(const Context& context, const ScatterPlan& plan, int64_t width, const float* dy, float* table) {
  launch(context, scatterAddKernel, elementGrid(plan.destinations * width), elementThreads, 0, plan, width, dy, table);
}

/** y[i] += bias for each row */
template <class T>
__global__ void addBiasKernel(int64_t count, int64_t width, const float* bias, T* y) {
  const int64_t i = element();
  if (i < count * width) y[i] = fromFloat<T>(toFloat(y[i]) + bias[i % width]);
}

template <class T>
void addBias(const Context& context, int64_t count, int64_t width, const float* bias, T* y) {
  launch(context, addBiasKernel<T>, elementGrid(count * width), elementThreads, 0, count, width, bias, y);
}

template <class T>
struct BiasGradient {
  const T* dy;
  int64_t width;
  __device__ float operator()(int64_t row, int64_t column) const { return toFloat(dy[row * width + column]); }
};

template <class T>
void addBiasBackward(const Context& context, int64_t count, int64_t width, const T* dy, DeviceBuffer<float>& scratch,
                     float* dBias) {
  addColumnSums(context, BiasGradient<T>{dy, width}, count, width, scratch, dBias);
}

/** y = silu(gate) · up */
template <class T>
__global__ void swigluKernel(int64_t count, const T* gate, const T* up, T* y) {
  const int64_t i = element();
  if (i >= count) return;
  const float g = toFloat(gate[i]);
  y[i] = fromFloat<T>(g / (1.0f + expf(-g)) * toFloat(up[i]));
}

template <class T>
void swiglu(const Context& context, int64_t count, const T* gate, const T* up, T* y) {
  launch(context, swigluKernel<T>, elementGrid(count), elementThreads, 0, count, gate, up, y);
}

/** Overwrites gate and up with their gradients. */
template <class T>
__global__ void swigluBackwardKernel(int64_t count, T* gate, T* up, const T* dy) {
  const int64_t i = element();
  if (i >= count) return;
  const float g = toFloat(gate[i]), u = toFloat(up[i]), d = toFloat(dy[i]);
  const float sigmoid = 1.0f / (1.0f + expf(-g)), silu = g * sigmoid;
  gate[i] = fromFloat<T>(d * u * sigmoid * (1.0f + g - silu));
  up[i] = fromFloat<T>(d * silu);
}

template <class T>
void swigluBackward(const Context& context, int64_t count, T* gate, T* up, const T* dy) {
  launch(context, swigluBackwardKernel<T>, elementGrid(count), elementThreads, 0, count, gate, up, dy);
}

/** Rotates the two halves of each head of x[count, heads · 2 · half] in place; `sign` -1 rotates back. */
template <class T>
__global__ void ropeKernel(int64_t count, int64_t heads, int64_t half, const int32_t* positions, const float* cosines,
                           const float* sines, float sign, T* x) {
  const int64_t i = element();
  if (i >= count * heads * half) return;
  const int64_t pair = i % half, head = i / half % heads, token = i / half / heads;
  const int64_t angle = positions[token] * half + pair;
  const float cosine = cosines[angle], sine = sign * sines[angle];
  T* low = x + (token * heads + head) * 2 * half + pair;
  T* high = low + half;
  const float a = toFloat(*low), b = toFloat(*high);
  *low = fromFloat<T>(a * cosine - b * sine);
  *high = fromFloat<T>(b * cosine + a * sine);
}

/** Angles of the rotary positions on the device: rows of `half`, one for each position. */
struct RopeAngles {
  int64_t half;
  const float* cosines;
  const float* sines;
};

template <class T>
void rope(const Context& context, int64_t count, int64_t heads, const int32_t* positions, const RopeAngles& angles,
          T* x, bool inverse) {
  launch(context, ropeKernel<T>, elementGrid(count * heads * angles.half), elementThreads, 0, count, heads, angles.half,
         positions, angles.cosines, angles.sines, inverse ? -1.0f : 1.0f, x);
}

}  // namespace primerl::cuda
