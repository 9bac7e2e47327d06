// The operations of a transformer as pairs of forward and backward. Matrices are row-major, one token a row; a gradient
// of a parameter is added to, a gradient of an activation is written unless it is said otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "primerl/batch.h"
#include "primerl/compute.h"
#include "primerl/config.h"
#include "primerl/gemm.h"

namespace primerl {

/** y[i] = table[ids[i]]; rows of `width`. */
template <class T>
void embedding(const Compute& compute, int64_t count, int64_t width, const int32_t* ids, const T* table, T* y);

template <class T>
void embeddingBackward(const Compute& compute, int64_t count, int64_t width, const int32_t* ids, const T* dy,
                       T* dTable);

/** y[count, out] = x[count, in] · w[out, in]ᵀ + bias, or += when `accumulate`; `bias` may be null. */
template <class T>
void linear(const Compute& compute, int64_t count, int64_t in, int64_t out, const T* x, const T* w, const T* bias,
            T* y, bool accumulate = false);

/** Adds to dw and, unless null, to dBias; writes dx, or adds to it when `accumulate`. */
template <class T>
void linearBackward(const Compute& compute, int64_t count, int64_t in, int64_t out, const T* x, const T* w,
                    const T* dy, T* dx, bool accumulate, T* dw, T* dBias);

/** dBias += the sum of the rows of dy. */
template <class T>
void biasGradient(const Compute& compute, int64_t count, int64_t width, const T* dy, T* dBias);

/** y[i] += bias for each row. */
template <class T>
void addBias(const Compute& compute, int64_t count, int64_t width, const T* bias, T* y);

/** y = x / rms(x) · w for each row; `rstd` gets 1 / rms, one a row. */
template <class T>
void rmsNorm(const Compute& compute, int64_t count, int64_t width, const T* x, const T* w, double eps, T* y, T* rstd);

/** Adds to dw; writes dx, which may be dy, or adds to it when `accumulate`. Either may be null and is left out then. */
template <class T>
void rmsNormBackward(const Compute& compute, int64_t count, int64_t width, const T* x, const T* w, const T* rstd,
                     const T* dy, T* dx, bool accumulate, T* dw);

/** y = silu(gate) · up, elementwise. */
template <class T>
void swiglu(const Compute& compute, int64_t count, const T* gate, const T* up, T* y);

/** Overwrites gate and up with their gradients. */
template <class T>
void swigluBackward(const Compute& compute, int64_t count, T* gate, T* up, const T* dy);

/** y += x */
template <class T>
void addTo(const Compute& compute, int64_t count, const T* x, T* y);

/** Cosines and sines of the rotary angles, one row of headDim / 2 for each position; grows on demand. */
template <class T>
class RopeTable {
 public:
  explicit RopeTable(const ModelConfig& config);

  void cover(int64_t positions);
  const T* cosines(int64_t position) const { return cosines_.data() + position * half_; }
  const T* sines(int64_t position) const { return sines_.data() + position * half_; }
  int64_t half() const { return half_; }

 private:
  int64_t half_;
  int64_t covered_ = 0;
  std::vector<double> frequencies_;
  std::vector<T> cosines_, sines_;
};

/** Rotates the two halves of each head of x[count, heads · headDim] in place; `inverse` is also the backward pass. */
template <class T>
void rope(const Compute& compute, int64_t count, int64_t heads, const int32_t* positions, const RopeTable<T>& table,
          T* x, bool inverse);

struct AttentionShape {
  int64_t heads;
  int64_t kvHeads;
  int64_t headDim;
};

/** Rows of a packed batch in rising order, of which only these are wanted. */
using Rows = std::vector<int64_t>;

/**
 * Causal attention within each sequence, scaled by 1 / sqrt(headDim). k and v have a row for each token; q, out and their
 * gradients have one for each of `queries`, or for each token when that is null.
 */
template <class T>
void attention(const Compute& compute, const AttentionShape& shape, const Positions& positions, const Rows* queries,
               const T* q, const T* k, const T* v, T* out);

template <class T>
void attentionBackward(const Compute& compute, const AttentionShape& shape, const Positions& positions,
                       const Rows* queries, const T* q, const T* k, const T* v, const T* out, const T* dOut, T* dq,
                       T* dk, T* dv);

/** One prediction: the row of hidden states it comes from, the token that followed, where its result belongs. */
struct Target {
  int64_t row;
  int32_t id;
  float temperature;
  int64_t token;
};

struct HeadResult {
  double logprob;
  double entropy;
};

/** Shapes of the head: w[vocab, width]. */
struct HeadShape {
  int64_t width;
  int64_t vocab;
};

/** Memory of the head, kept from one call to the next. */
template <class T>
struct HeadScratch {
  Buffer<T> hidden, logits, partials;
  PackedMatrix<T> packed;
};

/**
 * For each target in order: log-softmax(hidden[row] · wᵀ / temperature)[id] and the entropy of that distribution, given
 * to `use` as (index of the target, result), which returns d loss / d logprob. With `dHidden`, that gradient goes to
 * dHidden (rows of targets, added to) and, unless null, dw; without, what `use` returns is ignored. Logits exist for one chunk.
 */
template <class T>
void head(const Compute& compute, const HeadShape& shape, const std::vector<Target>& targets, const T* hidden,
          const T* w, const std::function<double(int64_t, HeadResult)>& use, T* dHidden, T* dw,
          HeadScratch<T>& scratch);

}  // namespace primerl
