// What an adapter adds to one projection, forward and backward, for some rows of a packed batch.
#pragma once

#include "primerl/lora.h"
#include "primerl/ops.h"

namespace primerl {

/** The rows of a batch that a block works on, from `from` on: masks hang on a token's own place in its batch. */
struct RowNames {
  /** null: row i is token i */
  const Rows* tokens;
  int64_t from;
  int64_t operator()(int64_t i) const { return tokens == nullptr ? from + i : (*tokens)[static_cast<size_t>(from + i)]; }
};

/** Scratch of a backward pass over all rows of a layer. */
template <class T>
struct LoraScratch {
  Buffer<T> input, low, dLow;
  int64_t size() const { return input.size() + low.size() + dLow.size(); }
};

template <class T>
class Adapted {
 public:
  Adapted(const LoraPass<T>& pass, const ModelConfig& config, int64_t layer, Projection projection);

  /** Whether there is an adapter for this projection; the rest asks for it. */
  bool there() const { return a_ != nullptr; }

  /** y[count, out] += scale · B·A·dropout(x[count, in]) */
  void forward(const Compute& compute, int64_t count, RowNames rows, const T* x, T* y) const;

  /** dx += the gradient by x */
  void inputGradient(const Compute& compute, int64_t count, RowNames rows, const T* dy, T* dx) const;

  /** Adds to the gradients of A and B. */
  void weightGradient(const Compute& compute, int64_t count, RowNames rows, const T* x, const T* dy,
                      LoraScratch<T>& scratch) const;

 private:
  bool drops() const { return dropout_ > 0; }
  /** y = mask · x / (1 - dropout), or y += so */
  void mask(int64_t count, RowNames rows, const T* x, T* y, bool accumulate) const;
  /** low = scale · x·Aᵀ, x with its mask */
  void down(const Compute& compute, int64_t count, const T* x, T* low) const;
  /** dLow = scale · dy·B */
  void downGradient(const Compute& compute, int64_t count, const T* dy, T* dLow) const;

  const ProjectionShape shape_;
  int64_t rank_ = 0;
  T scale_ = 0;
  double dropout_ = 0;
  /** of this projection's masks */
  uint64_t seed_ = 0, stream_ = 0;
  const T *a_ = nullptr, *b_ = nullptr;
  T *da_ = nullptr, *db_ = nullptr;
};

}  // namespace primerl
