#include "attention_block.h"

#include <algorithm>
#include <cmath>

namespace primerl {

template <class T>
void attentionBlock(const Kernels<T>& kernel, int rows, int64_t headDim, const QueryRow<T>* queries, const T* keys,
                    const T* values, Buffer<T>& scratch) {
  const int64_t width = paddedWidth(kernel, headDim);
  int64_t longest = 0;
  for (int r = 0; r < rows; r++) longest = std::max(longest, queries[r].length);
  T* packed = scratch.need(rows * (headDim + width + 2 * longest));
  T* result = packed + rows * headDim;
  T* scores = result + rows * width;
  T* weights = scores + rows * longest;

  const T scale = T(1 / std::sqrt(static_cast<double>(headDim)));
  for (int r = 0; r < rows; r++) {
    for (int64_t i = 0; i < headDim; i++) packed[i * rows + r] = queries[r].query[i] * scale;
  }
  timesPanels(kernel, rows, headDim, packed, longest, keys, scores, longest);
  for (int r = 0; r < rows; r++) {
    const int64_t length = queries[r].length;
    kernel.softmax(length, scores + r * longest);
    std::fill(scores + r * longest + length, scores + (r + 1) * longest, T(0));
  }
  kernel.packRows(rows, longest, scores, longest, 1, weights);
  timesRows(kernel, rows, longest, weights, rows, values, width, result, width, width, false);
  for (int r = 0; r < rows; r++) std::copy_n(result + r * width, headDim, queries[r].out);
}

template void attentionBlock<float>(const Kernels<float>&, int, int64_t, const QueryRow<float>*, const float*,
                                    const float*, Buffer<float>&);
template void attentionBlock<double>(const Kernels<double>&, int, int64_t, const QueryRow<double>*, const double*,
                                     const double*, Buffer<double>&);

}  // namespace primerl
