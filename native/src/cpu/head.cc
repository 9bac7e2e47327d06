// The output projection fused with log-softmax. Logits exist for one chunk of rows, and the vocabulary is cut into slices
// that are tasks: a slice makes its logits and their sums, and once all sums are known it makes its gradients, block by
// block while they are in the cache. Chunks and slices depend on the shape of the head alone.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "primerl/buffer.h"
#include "primerl/gemm.h"
#include "primerl/ops.h"
#include "primerl/plan.h"
#include "product.h"
#include "ranges.h"

namespace primerl {

namespace {

/** Logits that exist at one time, 32 MiB of float. */
constexpr int64_t mostLogits = int64_t(1) << 23;

/** Each slice sums the gradient of the hidden states on its own: more of them serve more threads and take more room. */
constexpr int64_t mostSlices = 24;
constexpr int64_t smallestSlice = 512;

/** Columns of logits whose gradients are made and used at one time; with 256 rows half the second cache. */
constexpr int64_t gradientColumns = 512;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/** Chunks of the same size, in whole tiles. */
int64_t chunkRows(int64_t total, int64_t vocab, int64_t tileRows) {
  const int64_t fitting = std::max<int64_t>(64, std::min<int64_t>(512, mostLogits / vocab));
  return ceilDivide(ceilDivide(total, ceilDivide(total, fitting)), tileRows) * tileRows;
}

int64_t sliceColumns(int64_t vocab) {
  const int64_t even = ceilDivide(ceilDivide(vocab, mostSlices), 64) * 64;
  return std::max(smallestSlice, even);
}

/** The softmax of a whole row, from the sums of its slices in their order. */
struct RowStats {
  double top = 0;
  double logTotal = 0;
  double entropy = 0;

  template <class T>
  RowStats(const LogitSums<T>* slices, int64_t count, double inverseTemperature) : top(double(slices[0].top)) {
    for (int64_t s = 1; s < count; s++) top = std::max(top, double(slices[s].top));
    double total = 0, moment = 0;
    for (int64_t s = 0; s < count; s++) {
      const double below = (double(slices[s].top) - top) * inverseTemperature, scale = std::exp(below);
      total += scale * slices[s].total;
      moment += scale * (slices[s].moment + below * slices[s].total);
    }
    logTotal = std::log(total);
    entropy = logTotal - moment / total;
  }
};

template <class T>
class Head {
 public:
  Head(const Compute& compute, const HeadShape& shape, int64_t rows, const T* hidden, const T* w, T* dHidden, T* dw,
       HeadScratch<T>& scratch)
      : compute_(compute), kernel_(kernels<T>(compute.isa)), width_(shape.width), vocab_(shape.vocab),
        columns_(sliceColumns(shape.vocab)), slices_(ceilDivide(shape.vocab, columns_)), hidden_(hidden), w_(w),
        dHidden_(dHidden), dw_(dw), right_(scratch.packed), sums_(static_cast<size_t>(rows * slices_)), slopes_(static_cast<size_t>(rows)) {
    x_ = scratch.hidden.need(rows * width_);
    z_ = scratch.logits.need(rows * vocab_);
    if (dHidden != nullptr) partial_ = scratch.partials.need(slices_ * rows * width_);
  }

  void chunk(const Target* targets, int64_t count, int64_t first,
             const std::function<double(int64_t, HeadResult)>& use) {
    targets_ = targets;
    count_ = count;
    forRows(compute_, count, width_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) std::copy_n(hidden_ + targets[i].row * width_, width_, x_ + i * width_);
    });
    compute_.pool.parallelTasks(slices_, [&](int64_t slice) { forward(slice); });
    stats_.clear();
    for (int64_t i = 0; i < count; i++) {
      const double inverse = 1 / double(targets[i].temperature);
      stats_.emplace_back(sums_.data() + i * slices_, slices_, inverse);
      const RowStats& stats = stats_.back();
      const double below = double(z_[i * vocab_ + targets[i].id]) - stats.top;
      const double slope = use(first + i, {below * inverse - stats.logTotal, stats.entropy});
      slopes_[static_cast<size_t>(i)] = T(slope) * (T(1) / T(targets[i].temperature));
    }
    if (dHidden_ == nullptr) return;
    if (dw_ != nullptr) right_.pack(compute_, count, width_, rows(x_, width_));
    compute_.pool.parallelTasks(slices_, [&](int64_t slice) { backward(slice); });
    forRows(compute_, count, slices_ * width_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        for (int64_t s = 0; s < slices_; s++) {
          kernel_.add(width_, dHidden_ + targets[i].row * width_, partial_ + (s * count_ + i) * width_);
        }
      }
    });
  }

 private:
  int64_t columnsOf(int64_t slice) const { return std::min(columns_, vocab_ - slice * columns_); }

  void forward(int64_t slice) {
    const int64_t from = slice * columns_, columns = columnsOf(slice);
    gemm(compute_, count_, columns, width_, rows(x_, width_), transposed(w_ + from * width_, width_), z_ + from,
         vocab_, false);
    forRows(compute_, count_, columns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        sums_[static_cast<size_t>(i * slices_ + slice)] =
            kernel_.logitSums(columns, z_ + i * vocab_ + from, T(1) / T(targets_[i].temperature));
      }
    });
  }

  void backward(int64_t slice) {
    const int64_t end = slice * columns_ + columnsOf(slice);
    for (int64_t from = slice * columns_; from < end; from += gradientColumns) {
      const int64_t columns = std::min(gradientColumns, end - from);
      forRows(compute_, count_, columns, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; i++) gradientRow(i, from, columns);
      });
      if (dw_ != nullptr)
        gemm(compute_, columns, transposed(z_ + from, vocab_), right_, dw_ + from * width_, width_, true);
      gemm(compute_, count_, width_, columns, rows(z_ + from, vocab_), rows(w_ + from * width_, width_),
           partial_ + slice * count_ * width_, width_, from > slice * columns_);
    }
  }

  void gradientRow(int64_t i, int64_t from, int64_t columns) {
    const RowStats& stats = stats_[static_cast<size_t>(i)];
    const Target& target = targets_[i];
    const T scale = slopes_[static_cast<size_t>(i)];
    T* z = z_ + i * vocab_;
    kernel_.logitGradient(columns, z + from, T(1) / T(target.temperature), T(stats.top), T(stats.logTotal), scale);
    if (target.id >= from && target.id < from + columns) z[target.id] += scale;
  }

  const Compute& compute_;
  const Kernels<T>& kernel_;
  const int64_t width_, vocab_, columns_, slices_;
  const T* const hidden_;
  const T* const w_;
  T* const dHidden_;
  T* const dw_;
  PackedMatrix<T>& right_;
  T *x_ = nullptr, *z_ = nullptr, *partial_ = nullptr;
  std::vector<LogitSums<T>> sums_;
  std::vector<RowStats> stats_;
  /** d loss / d (logit of the target / temperature) */
  std::vector<T> slopes_;
  // of the running chunk
  const Target* targets_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace

template <class T>
void head(const Compute& compute, const HeadShape& shape, const std::vector<Target>& targets, const T* hidden,
          const T* w, const std::function<double(int64_t, HeadResult)>& use, T* dHidden, T* dw,
          HeadScratch<T>& scratch) {
  const int64_t total = static_cast<int64_t>(targets.size());
  if (total == 0) return;
  const int64_t rows = chunkRows(total, shape.vocab, productKernel<T>(compute).tileRows);
  Head<T> head(compute, shape, rows, hidden, w, dHidden, dw, scratch);
  for (int64_t start = 0; start < total; start += rows) {
    compute.check();
    head.chunk(targets.data() + start, std::min(rows, total - start), start, use);
  }
}

template <class T>
int64_t headScratchBytes(const Compute& compute, int64_t width, int64_t vocab, int64_t targets, bool backward) {
  if (targets == 0) return 0;
  const ProductKernel<T>& kernel = productKernel<T>(compute);
  const int64_t rows = chunkRows(targets, vocab, kernel.tileRows);
  const int64_t slices = ceilDivide(vocab, sliceColumns(vocab));
  const int64_t packed = ceilDivide(width, kernel.tileColumns) * kernel.rightBytes(rows);
  const int64_t numbers = rows * (width + vocab + (backward ? slices * width : 0));
  return numbers * static_cast<int64_t>(sizeof(T)) + (backward ? packed : 0);
}

template int64_t headScratchBytes<float>(const Compute&, int64_t, int64_t, int64_t, bool);
template int64_t headScratchBytes<double>(const Compute&, int64_t, int64_t, int64_t, bool);

template void head<float>(const Compute&, const HeadShape&, const std::vector<Target>&, const float*, const float*,
                          const std::function<double(int64_t, HeadResult)>&, float*, float*, HeadScratch<float>&);
template void head<double>(const Compute&, const HeadShape&, const std::vector<Target>&, const double*, const double*,
                           const std::function<double(int64_t, HeadResult)>&, double*, double*, HeadScratch<double>&);

}  // namespace primerl
