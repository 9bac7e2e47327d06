// Attention of a few query rows over keys held in panels. A row's result depends on its own query and on the keys up to
// its own length, in the order of keys; so packed training, prompts and decoding give the same bits.
#pragma once

#include <cstdint>

#include "primerl/buffer.h"
#include "kernels.h"

namespace primerl {

/** Columns of values and gradients are padded to whole vectors. */
template <class T>
int64_t paddedWidth(const Kernels<T>& kernel, int64_t headDim) {
  return (headDim + kernel.lanes - 1) / kernel.lanes * kernel.lanes;
}

/** Elements of the panels that hold `count` rows of `width` as columns of a right operand. */
template <class T>
int64_t panelElements(const Kernels<T>& kernel, int64_t count, int64_t width) {
  return (count + kernel.tileColumns - 1) / kernel.tileColumns * kernel.tileColumns * width;
}

/** Stores `row` (width elements) as column `index` of the panels [index / tileColumns][width][tileColumns]. */
template <class T>
void storeColumn(const Kernels<T>& kernel, int64_t width, int64_t index, const T* row, T* panels) {
  T* out = panels + index / kernel.tileColumns * kernel.tileColumns * width + index % kernel.tileColumns;
  for (int64_t i = 0; i < width; i++) out[i * kernel.tileColumns] = row[i];
}

/** products[r][j] = rows[r] · column j of the panels, for j < count. `packed` is left [width][rows]. */
template <class T>
void timesPanels(const Kernels<T>& kernel, int rows, int64_t width, const T* packed, int64_t count, const T* panels,
                 T* products, int64_t stride) {
  for (int64_t j = 0; j < count; j += kernel.tileColumns) {
    const int64_t columns = count - j < kernel.tileColumns ? count - j : kernel.tileColumns;
    kernel.tile(rows, static_cast<int>(columns), width, packed, rows, panels + j * width, kernel.tileColumns,
                products + j, stride, false);
  }
}

/** out[r][n] (+)= sum over j < count of left[j * leftStride + r] * values[j * valueStride + n], for n < width. */
template <class T>
void timesRows(const Kernels<T>& kernel, int rows, int64_t count, const T* left, int64_t leftStride, const T* values,
               int64_t valueStride, T* out, int64_t outStride, int64_t width, bool accumulate) {
  for (int64_t n = 0; n < width; n += kernel.tileColumns) {
    const int64_t columns = width - n < kernel.tileColumns ? width - n : kernel.tileColumns;
    kernel.tile(rows, static_cast<int>(columns), count, left, leftStride, values + n, valueStride, out + n, outStride,
                accumulate);
  }
}

/** One query: `length` keys are seen. */
template <class T>
struct QueryRow {
  const T* query;
  T* out;
  int64_t length;
};

/**
 * out = softmax(query · keys / sqrt(headDim)) · values for up to `tileRows` rows. `keys` are panels, `values` rows of
 * `paddedWidth`. `scratch` grows as needed.
 */
template <class T>
void attentionBlock(const Kernels<T>& kernel, int rows, int64_t headDim, const QueryRow<T>* queries, const T* keys,
                    const T* values, Buffer<T>& scratch);

}  // namespace primerl
