// The output projection fused with log-softmax: logits exist for one chunk of rows, whose size depends on the shape of
// the head alone.
#include <algorithm>

#include "primerl/buffer.h"
#include "kernels.h"
#include "primerl/gemm.h"
#include "primerl/ops.h"
#include "ranges.h"

namespace primerl {

namespace {

/** About 32 MiB of float logits, between 64 and 1024 rows. */
int64_t chunkRows(int64_t vocab) {
  const int64_t fitting = (int64_t(1) << 23) / vocab;
  return std::max<int64_t>(64, std::min<int64_t>(1024, fitting));
}

}  // namespace

template <class T>
void head(const Compute& compute, const HeadShape& shape, const std::vector<Target>& targets, const T* hidden,
          const T* w, const std::function<double(int64_t, HeadResult)>& use, T* dHidden, T* dw) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  const int64_t width = shape.width, vocab = shape.vocab, total = static_cast<int64_t>(targets.size());
  const int64_t rowsPerChunk = std::min(total, chunkRows(vocab));
  Buffer<T> gathered, logits;
  std::vector<LogitStats<T>> stats(static_cast<size_t>(rowsPerChunk));
  std::vector<T> slopes(static_cast<size_t>(rowsPerChunk));
  for (int64_t start = 0; start < total; start += rowsPerChunk) {
    compute.check();
    const int64_t count = std::min(rowsPerChunk, total - start);
    const Target* chunk = targets.data() + start;
    T* x = gathered.need(rowsPerChunk * width);
    T* z = logits.need(rowsPerChunk * vocab);
    const auto slope = [&](int64_t i) -> T& { return slopes[static_cast<size_t>(i)]; };
    const auto stat = [&](int64_t i) -> LogitStats<T>& { return stats[static_cast<size_t>(i)]; };
    forRows(compute, count, width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) std::copy_n(hidden + chunk[i].row * width, width, x + i * width);
    });
    gemm(compute, count, vocab, width, rows(x, width), transposed(w, width), z, vocab, false);
    forRows(compute, count, vocab, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        stat(i) = kernel.logitStats(vocab, z + i * vocab, T(1) / T(chunk[i].temperature));
      }
    });
    for (int64_t i = 0; i < count; i++) {
      const double below = double(z[i * vocab + chunk[i].id]) - double(stat(i).top);
      const double logprob = below / double(chunk[i].temperature) - stat(i).logTotal;
      slope(i) = T(use(start + i, {logprob, stat(i).entropy}));
    }
    if (dHidden == nullptr) continue;

    forRows(compute, count, vocab, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const T inverse = T(1) / T(chunk[i].temperature), scale = slope(i) * inverse;
        kernel.logitGradient(vocab, z + i * vocab, inverse, stat(i).top, T(stat(i).logTotal), scale);
        z[i * vocab + chunk[i].id] += scale;
      }
    });
    gemm(compute, vocab, width, count, transposed(z, vocab), rows(x, width), dw, width, true);
    gemm(compute, count, width, vocab, rows(z, vocab), rows(w, width), x, width, false);
    forRows(compute, count, width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) kernel.add(width, dHidden + chunk[i].row * width, x + i * width);
    });
  }
}

template void head<float>(const Compute&, const HeadShape&, const std::vector<Target>&, const float*, const float*,
                          const std::function<double(int64_t, HeadResult)>&, float*, float*);
template void head<double>(const Compute&, const HeadShape&, const std::vector<Target>&, const double*, const double*,
                           const std::function<double(int64_t, HeadResult)>&, double*, double*);

}  // namespace primerl
