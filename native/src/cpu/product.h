// The one interface behind which matrix products of every instruction set and precision stand. Operands are rearranged
// into panels first, in a form that is the kernel's own affair.
#pragma once

#include <cstdint>

#include "primerl/compute.h"
#include "primerl/gemm.h"

namespace primerl {

template <class T>
struct ProductKernel {
  const char* name;
  /** largest number of rows and columns of a tile */
  int tileRows;
  int tileColumns;
  /** K is cut into blocks of this depth, one panel each; they fit the first cache together with each other */
  int64_t depth;

  /** Bytes of a panel of K, `rows` of them on the left; a multiple of 64 on the right, whose panels are always whole. */
  int64_t (*leftBytes)(int rows, int64_t K);
  int64_t (*rightBytes)(int64_t K);

  /** Packs `rows` rows of a left operand, or `columns` columns of a right one with zeros up to tileColumns. */
  void (*packLeft)(int rows, int64_t K, View<T> source, void* panel);
  void (*packRight)(int columns, int64_t K, View<T> source, void* panel);

  /** c[r][n] (+)= sum over K; an element has the same bits whatever `rows` and `columns` are. */
  void (*tile)(int rows, int columns, int64_t K, const void* left, const void* right, T* c, int64_t ldc,
               bool accumulate);
};

/** The best for this computation. */
template <class T>
const ProductKernel<T>& productKernel(const Compute& compute);

const ProductKernel<float>& scalarProduct();
const ProductKernel<double>& scalarProductDouble();
const ProductKernel<float>& scalarRoundedProduct();
#if defined(__x86_64__)
const ProductKernel<float>& avx2Product();
const ProductKernel<float>& avx2RoundedProduct();
const ProductKernel<float>& avx512Product();
const ProductKernel<float>& avx512RoundedProduct();
const ProductKernel<float>& avx512bf16Product();
const ProductKernel<float>& amxProduct();
#endif

/** The three products of `Precision::bfloat16x3`, each by the bfloat16 kernel of the instruction set. */
const ProductKernel<float>& splitProduct(Isa isa);

}  // namespace primerl
