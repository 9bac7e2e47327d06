// RMS norm: a warp has one row.
#pragma once

#include "cuda/reduce.cuh"

namespace primerl::cuda {

constexpr int normWarps = 4;

/** The row of this warp, or -1 when there is none. */
__device__ inline int64_t warpRow(int64_t count) {
  const int64_t row = int64_t(blockIdx.x) * normWarps + threadIdx.x / warpLanes;
  return row < count ? row : -1;
}

/** y = x / rms(x) · w; rstd = 1 / rms */
template <class In, class Out>
__global__ void rmsNormKernel(int64_t count, int64_t width, const In* x, const float* w, float eps, Out* y,
                              float* rstd) {
  const int64_t row = warpRow(count);
  if (row < 0) return;
  const int lane = threadIdx.x % warpLanes;
  x += row * width;
  y += row * width;
  double squares = 0;
  for (int64_t i = lane; i < width; i += warpLanes) squares += double(toFloat(x[i])) * double(toFloat(x[i]));
  // An error of the scale would move all logits of a row together, so it keeps the digits that one float drops.
  const double exact = 1.0 / sqrt(warpSum(squares) / double(width) + double(eps));
  const float scale = float(exact), rest = float(exact - double(scale));
  for (int64_t i = lane; i < width; i += warpLanes) {
    y[i] = fromFloat<Out>((toFloat(x[i]) * rest + toFloat(x[i]) * scale) * w[i]);
  }
  if (lane == 0) rstd[row] = scale;
}

template <class In, class Out>
void rmsNorm(const Context& context, int64_t count, int64_t width, const In* x, const float* w, double eps, Out* y,
             float* rstd) {
  launch(context, rmsNormKernel<In, Out>, {blocksFor(count, normWarps)}, normWarps * warpLanes, 0, count, width, x, w,
         eps, y, rstd);
}

/** dx = (or += when `accumulate`) the gradient by x; dx may be dy */
template <class In, class Gradient, class Out>
__global__ void rmsNormBackwardKernel(int64_t count, int64_t width, const In* x, const float* w, const float* rstd,
                                      const Gradient* dy, Out* dx, bool accumulate) {
  const int64_t row = warpRow(count);
  if (row < 0) return;
  const int lane = threadIdx.x % warpLanes;
  x += row * width;
  dy += row * width;
  dx += row * width;
  const float scale = rstd[row];
  float along = 0;
  for (int64_t i = lane; i < width; i += warpLanes) along += toFloat(dy[i]) * w[i] * toFloat(x[i]);
  const float pull = warpSum(along) * scale * scale * scale / float(width);
  for (int64_t i = lane; i < width; i += warpLanes) {
    const float slope = toFloat(dy[i]) * w[i] * scale - toFloat(x[i]) * pull;
    dx[i] = fromFloat<Out>(accumulate ? toFloat(dx[i]) + slope : slope);
  }
}

template <class In, class Gradient>
struct NormWeightGradient {
  const In* x;
  const Gradient* dy;
  const float* rstd;
  int64_t width;
  __device__ float operator()(int64_t row, int64_t column) const {
    return rstd[row] * toFloat(dy[row * width + column]) * toFloat(x[row * width + column]);
  }
};

/** Adds to dw; writes dx, or adds to it. */
template <class In, class Gradient, class Out>
void rmsNormBackward(const Context& context, int64_t count, int64_t width, const In* x, const float* w,
                     const float* rstd, const Gradient* dy, Out* dx, bool accumulate, DeviceBuffer<float>& scratch,
                     float* dw) {
  addColumnSums(context, NormWeightGradient<In, Gradient>{x, dy, rstd, width}, count, width, scratch, dw);
  launch(context, rmsNormBackwardKernel<In, Gradient, Out>, {blocksFor(count, normWarps)}, normWarps * warpLanes, 0,
         count, width, x, w, rstd, dy, dx, accumulate);
}

}  // namespace primerl::cuda
