#include "adapted.h"

#include <cmath>

#include "random.h"

namespace primerl {
namespace {

/** Of the calling thread, for a block of rows. */
template <class T>
T* blockOf(int64_t numbers) {
  static thread_local Buffer<T> buffer;
  return buffer.need(numbers);
}

template <class T>
void multiply(int64_t count, T factor, T* x) {
  for (int64_t i = 0; i < count; i++) x[i] *= factor;
}

}  // namespace

template <class T>
Adapted<T>::Adapted(const LoraPass<T>& pass, const ModelConfig& config, int64_t layer, Projection projection)
    : shape_(shapeOf(config, projection)) {
  if (pass.layout == nullptr) return;
  const LoraLayout::Pair& at = pass.layout->pair(layer, projection);
  if (at.a == absent) return;
  const LoraOptions& options = pass.layout->options();
  rank_ = options.rank;
  scale_ = T(options.scale);
  dropout_ = pass.drops ? options.dropout : 0;
  seed_ = pass.maskSeed;
  stream_ = static_cast<uint64_t>(layer) * projectionCount + static_cast<uint64_t>(projection) + 1;
  a_ = pass.weights + at.a;
  b_ = pass.weights + at.b;
  if (pass.gradients == nullptr) return;
  da_ = pass.gradients + at.a;
  db_ = pass.gradients + at.b;
}

template <class T>
void Adapted<T>::mask(int64_t count, RowNames rows, const T* x, T* y, bool accumulate) const {
  const uint64_t least = static_cast<uint64_t>(std::ldexp(dropout_, 53));
  const T kept = T(1 / (1 - dropout_));
  const uint64_t width = static_cast<uint64_t>(shape_.in);
  for (int64_t i = 0; i < count; i++, x += width, y += width) {
    const uint64_t first = static_cast<uint64_t>(rows(i)) * width;
    for (uint64_t j = 0; j < width; j++) {
      const T value = (randomBits(seed_, stream_, first + j) >> 11) < least ? T(0) : kept * x[j];
      y[j] = accumulate ? y[j] + value : value;
    }
  }
}

template <class T>
void Adapted<T>::down(const Compute& compute, int64_t count, const T* x, T* low) const {
  gemm(compute, count, rank_, shape_.in, rows(x, shape_.in), transposed(a_, shape_.in), low, rank_, false);
  multiply(count * rank_, scale_, low);
}

template <class T>
void Adapted<T>::downGradient(const Compute& compute, int64_t count, const T* dy, T* dLow) const {
  gemm(compute, count, rank_, shape_.out, rows(dy, shape_.out), rows(b_, rank_), dLow, rank_, false);
  multiply(count * rank_, scale_, dLow);
}

template <class T>
void Adapted<T>::forward(const Compute& compute, int64_t count, RowNames rows, const T* x, T* y) const {
  T* low = blockOf<T>(count * (rank_ + (drops() ? shape_.in : 0)));
  if (drops()) {
    T* kept = low + count * rank_;
    mask(count, rows, x, kept, false);
    x = kept;
  }
  down(compute, count, x, low);
  gemm(compute, count, shape_.out, rank_, primerl::rows(low, rank_), transposed(b_, rank_), y, shape_.out, true);
}

template <class T>
void Adapted<T>::inputGradient(const Compute& compute, int64_t count, RowNames rows, const T* dy, T* dx) const {
  T* dLow = blockOf<T>(count * (rank_ + (drops() ? shape_.in : 0)));
  downGradient(compute, count, dy, dLow);
  T* into = drops() ? dLow + count * rank_ : dx;
  gemm(compute, count, shape_.in, rank_, primerl::rows(dLow, rank_), primerl::rows(a_, shape_.in), into, shape_.in,
       !drops());
  if (drops()) mask(count, rows, into, dx, true);
}

template <class T>
void Adapted<T>::weightGradient(const Compute& compute, int64_t count, RowNames rows, const T* x, const T* dy,
                                LoraScratch<T>& scratch) const {
  if (drops()) {
    T* kept = scratch.input.need(count * shape_.in);
    compute.pool.parallelFor(count, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * shape_.in;
      mask(end - begin, {rows.tokens, rows.from + begin}, x + at, kept + at, false);
    });
    x = kept;
  }
  T* low = scratch.low.need(count * rank_);
  T* dLow = scratch.dLow.need(count * rank_);
  down(compute, count, x, low);
  downGradient(compute, count, dy, dLow);
  gemm(compute, shape_.out, rank_, count, transposed(dy, shape_.out), primerl::rows(low, rank_), db_, rank_, true);
  gemm(compute, rank_, shape_.in, count, transposed(dLow, rank_), primerl::rows(x, shape_.in), da_, shape_.in, true);
}

template class Adapted<float>;
template class Adapted<double>;

}  // namespace primerl
