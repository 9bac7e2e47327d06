// Every element of a product is summed in the order of K, in the same blocks, whatever M, N and the threads are: a row
// of C has the same bits alone and among others.
#pragma once

#include <cstdint>

#include "primerl/buffer.h"
#include "primerl/compute.h"

namespace primerl {

/** Element (i, j) lies at data[i * rowStride + j * columnStride]. */
template <class T>
struct View {
  const T* data;
  int64_t rowStride;
  int64_t columnStride;
};

/** A row-major matrix whose rows are `width` elements apart. */
template <class T>
View<T> rows(const T* data, int64_t width) {
  return {data, width, 1};
}

/** The transpose of a row-major matrix whose rows are `width` elements apart. */
template <class T>
View<T> transposed(const T* data, int64_t width) {
  return {data, 1, width};
}

/** A right operand [K, N] rearranged once for many products. Valid for the instruction set and precision it was packed
 * for. */
template <class T>
class PackedMatrix {
 public:
  void pack(const Compute& compute, int64_t K, int64_t N, View<T> b);
  int64_t depth() const { return depth_; }
  int64_t columns() const { return columns_; }
  int64_t bytes() const { return data_.size(); }
  const char* data() const { return data_.data(); }

 private:
  int64_t depth_ = 0;
  int64_t columns_ = 0;
  Buffer<char> data_;
};

/** C[M, N] = A[M, K] · B[K, N], or += when `accumulate`; rows of C are `ldc` elements apart. */
template <class T>
void gemm(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, View<T> b, T* c, int64_t ldc,
          bool accumulate);

/** The same with a right operand packed before. */
template <class T>
void gemm(const Compute& compute, int64_t M, View<T> a, const PackedMatrix<T>& b, T* c, int64_t ldc, bool accumulate);

}  // namespace primerl
