// Matrix products: cuBLAS where it was found, else a kernel of our own with tiles in shared memory. Both multiply
// float32 or bfloat16 and sum in float32.
#pragma once

#include "cuda/cublas.h"
#include "cuda/target.h"

namespace primerl::cuda {

/** A row-major matrix with rows of `width`, or its transpose. */
template <class T>
struct Operand {
  const T* data;
  int64_t width;
  bool transposed = false;
};

constexpr int matmulTile = 64;
constexpr int matmulDepth = 16;
constexpr int matmulThreads = 256;
constexpr int matmulOwn = 4;

/** tile[k][i] = element (first + i, depth + k) of an operand of `count` rows and K columns, 0 outside of it */
template <class T>
__device__ inline void loadTile(Operand<T> operand, int64_t first, int64_t count, int64_t depth, int64_t K,
                                float (*tile)[matmulTile + 1]) {
  for (int e = threadIdx.x; e < matmulTile * matmulDepth; e += matmulThreads) {
    // neighbouring threads read neighbouring elements in either layout
    const int i = operand.transposed ? e % matmulTile : e / matmulDepth;
    const int k = operand.transposed ? e / matmulTile : e % matmulDepth;
    const int64_t row = first + i, column = depth + k;
    float value = 0;
    if (row < count && column < K) {
      value = toFloat(operand.data[operand.transposed ? column * operand.width + row : row * operand.width + column]);
    }
    tile[k][i] = value;
  }
}

/** C[M, N] = A[M, K] · B[N, K]ᵀ, or +=; B is given by rows of its transpose */
template <class T, class Out>
__global__ void matmulKernel(int64_t M, int64_t N, int64_t K, Operand<T> a, Operand<T> b, Out* c, bool accumulate) {
  __shared__ float left[matmulDepth][matmulTile + 1];
  __shared__ float right[matmulDepth][matmulTile + 1];
  const int64_t firstRow = int64_t(blockIdx.y) * matmulTile, firstColumn = int64_t(blockIdx.x) * matmulTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sums[matmulOwn][matmulOwn] = {};
  for (int64_t depth = 0; depth < K; depth += matmulDepth) {
    loadTile(a, firstRow, M, depth, K, left);
    loadTile(b, firstColumn, N, depth, K, right);
    __syncthreads();
    for (int k = 0; k < matmulDepth; k++) {
      for (int i = 0; i < matmulOwn; i++) {
        for (int j = 0; j < matmulOwn; j++) sums[i][j] += left[k][ty + 16 * i] * right[k][tx + 16 * j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < matmulOwn; i++) {
    for (int j = 0; j < matmulOwn; j++) {
      const int64_t row = firstRow + ty + 16 * i, column = firstColumn + tx + 16 * j;
      if (row >= M || column >= N) continue;
      Out& to = c[row * N + column];
      to = fromFloat<Out>(accumulate ? toFloat(to) + sums[i][j] : sums[i][j]);
    }
  }
}

/** C[M, N] = A[M, K] · B[K, N], or += when `accumulate`; rows of C are N apart. */
template <class T, class Out>
void matmul(const Context& context, int64_t M, int64_t N, int64_t K, Operand<T> a, Operand<T> b, Out* c,
            bool accumulate) {
  if (context.cublas != nullptr && cublasMatmul(context, M, N, K, a, b, c, accumulate)) return;
  const Operand<T> columns{b.data, b.width, !b.transposed};
  launch(context, matmulKernel<T, Out>, {blocksFor(N, matmulTile), blocksFor(M, matmulTile)}, matmulThreads, 0, M, N, K,
         a, columns, c, accumulate);
}

/** y[count, out] = x[count, in] · w[out, in]ᵀ, or += */
template <class T, class Out>
void linear(const Context& context, int64_t count, int64_t in, int64_t out, const T* x, const T* w, Out* y,
            bool accumulate) {
  matmul(context, count, out, in, Operand<T>{x, in}, Operand<T>{w, in, true}, y, accumulate);
}

/** Adds to dw; writes dx, or adds to it when `accumulate`. */
template <class T, class Out>
void linearBackward(const Context& context, int64_t count, int64_t in, int64_t out, const T* x, const T* w,
                    const T* dy, Out* dx, bool accumulate, float* dw) {
  matmul(context, out, in, count, Operand<T>{dy, out, true}, Operand<T>{x, in}, dw, true);
  matmul(context, count, in, out, Operand<T>{dy, out}, Operand<T>{w, in}, dx, accumulate);
}

}  // namespace primerl::cuda
