#include "layer.h"

#include <algorithm>

#include "cpu/kernels.h"
#include "cpu/product.h"
#include "primerl/gemm.h"
#include "primerl/phases.h"

namespace primerl {

namespace {

/** The tensor at an offset; null when the model has none. */
template <class T>
T* at(T* arena, int64_t offset) {
  return offset == absent ? nullptr : arena + offset;
}

/** Scratch of one thread for one block of rows. */
template <class T>
Buffer<T>& blockScratch() {
  static thread_local Buffer<T> scratch;
  return scratch;
}

/** Calls `task(begin, end)` on blocks of rows of whole tiles, small enough for the cache and enough for all threads. */
template <class T, class Task>
void forBlocks(const Compute& compute, int64_t count, Task task) {
  const int64_t tile = productKernel<T>(compute).tileRows, largest = std::max<int64_t>(1, 224 / tile);
  const int64_t shared = count / tile / (4 * compute.pool.threads());
  const int64_t rows = tile * std::min(largest, std::max<int64_t>(4, shared));
  compute.pool.parallelTasks((count + rows - 1) / rows, [&](int64_t block) {
    task(block * rows, std::min(count, (block + 1) * rows));
  });
}

template <class T>
class Layer {
 public:
  explicit Layer(const LayerContext<T>& context)
      : context_(context), compute_(context.compute), config_(context.config), offsets_(context.offsets),
        work_(context.work), kept_(context.kept), wanted_(context.wanted), tokens_(context.work.tokens),
        outputs_(context.outputs()), hidden_(context.config.hiddenSize), inner_(context.config.intermediateSize),
        queries_(context.config.queryDim()), keys_(context.config.kvDim()) {}

  void forward(T* next) {
    {
      PhaseTimer timer(compute_, Phase::projections, false);
      projectForward();
    }
    {
      PhaseTimer timer(compute_, Phase::attention, false);
      attention(compute_, shape(), work_.place(), wanted_, kept_.q.data(), kept_.k.data(), kept_.v.data(),
                kept_.attended.need(outputs_ * queries_));
    }
    PhaseTimer timer(compute_, Phase::feedForward, false);
    feedForward(next);
  }

  void backward(T* stream, T* gradients) {
    gradients_ = gradients;
    {
      PhaseTimer timer(compute_, Phase::feedForward, true);
      feedForwardBackward(stream);
    }
    T* dAttended = work_.dAttended.need(outputs_ * queries_);
    T* dq = work_.dq.need(outputs_ * queries_);
    T* dk = work_.dk.need(tokens_ * keys_);
    T* dv = work_.dv.need(tokens_ * keys_);
    {
      PhaseTimer timer(compute_, Phase::attention, true);
      attentionBackward(compute_, shape(), work_.place(), wanted_, kept_.q.data(), kept_.k.data(), kept_.v.data(),
                        kept_.attended.data(), dAttended, dq, dk, dv);
    }
    PhaseTimer timer(compute_, Phase::projections, true);
    projectBackward(stream, dq, dk, dv);
  }

 private:
  AttentionShape shape() const { return {config_.heads, config_.kvHeads, config_.headDim}; }

  const T* weight(int64_t offset) const { return at(context_.weights, offset); }
  T* gradient(int64_t offset) const { return gradients_ == nullptr ? nullptr : at(gradients_, offset); }

  /** w[out, in] as the right operand of x · wᵀ, and of dy · w. */
  const PackedMatrix<T>& forwards(int slot, int64_t offset, int64_t in, int64_t out) {
    return packed(slot, in, out, transposed(weight(offset), in));
  }
  const PackedMatrix<T>& backwards(int slot, int64_t offset, int64_t in, int64_t out) {
    return packed(slot, out, in, rows(weight(offset), in));
  }
  const PackedMatrix<T>& packed(int slot, int64_t K, int64_t N, View<T> view) {
    work_.packed[slot].pack(compute_, K, N, view);
    return work_.packed[slot];
  }

  /** y = x · w + bias for `count` rows. */
  void product(int64_t count, const T* x, const PackedMatrix<T>& w, int64_t bias, T* y, bool accumulate = false) {
    gemm(compute_, count, rows(x, w.depth()), w, y, w.columns(), accumulate);
    if (bias != absent) addBias(compute_, count, w.columns(), weight(bias), y);
  }

  /** The token rows that a projection works on, from row `from` of its own on. */
  RowNames rowNames(Projection projection, int64_t from) const {
    const bool everyToken = projection == Projection::k || projection == Projection::v;
    return {everyToken ? nullptr : wanted_, from};
  }

  Adapted<T> adapted(Projection projection) const { return {context_.lora, config_, context_.index, projection}; }

  /** What the adapter adds to y, the projection of rows [from, from + count). */
  void adapt(Projection projection, int64_t from, int64_t count, const T* x, T* y) const {
    const Adapted<T> by = adapted(projection);
    if (by.there()) by.forward(compute_, count, rowNames(projection, from), x, y);
  }

  /** What the adapter adds to dx. */
  void adaptBackward(Projection projection, int64_t from, int64_t count, const T* dy, T* dx) const {
    const Adapted<T> by = adapted(projection);
    if (by.there()) by.inputGradient(compute_, count, rowNames(projection, from), dy, dx);
  }

  /** dw += dyᵀ · x, and dBias += the sum of dy; the same for the projection's adapter. */
  void weightGradient(Projection projection, int64_t count, int64_t in, int64_t out, const T* x, const T* dy, int64_t w,
                      int64_t bias) {
    const Adapted<T> by = adapted(projection);
    if (by.there()) by.weightGradient(compute_, count, rowNames(projection, 0), x, dy, work_.lora);
    if (gradients_ == nullptr) return;
    gemm(compute_, out, in, count, transposed(dy, out), rows(x, in), gradient(w), in, true);
    if (bias != absent) biasGradient(compute_, count, out, dy, gradient(bias));
  }

  void norm(int64_t from, int64_t to, const T* x, int64_t w, T* y, T* rstd) {
    rmsNorm(compute_, to - from, hidden_, x + from * hidden_, weight(w), config_.rmsNormEps, y, rstd + from);
  }

  const int32_t* positions(const std::vector<int32_t>& all, int64_t from) const { return all.data() + from; }

  /** Heads of rows [from, to): projects, norms if the model does, and rotates. */
  void heads(Projection projection, int64_t from, int64_t to, const T* x, int64_t count, const PackedMatrix<T>& w,
             int64_t bias, int64_t norm, const std::vector<int32_t>& places, T* raw, T* rstd, T* y) {
    const int64_t width = count * config_.headDim;
    T* projected = (norm == absent ? y : raw) + from * width;
    product(to - from, x, w, bias, projected);
    adapt(projection, from, to - from, x, projected);
    if (norm != absent) {
      rmsNorm(compute_, (to - from) * count, config_.headDim, raw + from * width, weight(norm), config_.rmsNormEps,
              y + from * width, rstd + from * count);
    }
    rope(compute_, to - from, count, positions(places, from), context_.rope, y + from * width, false);
  }

  const std::vector<int32_t>& allPlaces() const { return work_.place().positions; }
  const std::vector<int32_t>& queryPlaces() const { return wanted_ == nullptr ? allPlaces() : work_.wantedPositions; }

  /** The wanted rows of `all`; itself when all are. */
  const T* pick(const T* all) {
    if (wanted_ == nullptr) return all;
    T* some = work_.picked.need(outputs_ * hidden_);
    for (int64_t i = 0; i < outputs_; i++) std::copy_n(all + row(i) * hidden_, hidden_, some + i * hidden_);
    return some;
  }
  int64_t row(int64_t i) const { return wanted_ == nullptr ? i : (*wanted_)[static_cast<size_t>(i)]; }

  void projectForward() {
    const PackedMatrix<T>& wq = forwards(0, offsets_.q, hidden_, queries_);
    const PackedMatrix<T>& wk = forwards(1, offsets_.k, hidden_, keys_);
    const PackedMatrix<T>& wv = forwards(2, offsets_.v, hidden_, keys_);
    T* normed = work_.normed.need(tokens_ * hidden_);
    T* rstd = kept_.inputRstd.need(tokens_);
    T* q = kept_.q.need(outputs_ * queries_);
    T* k = kept_.k.need(tokens_ * keys_);
    T* v = kept_.v.need(tokens_ * keys_);
    const bool norms = config_.qkNorm;
    T* rawQ = norms ? kept_.rawQ.need(outputs_ * queries_) : nullptr;
    T* rawK = norms ? kept_.rawK.need(tokens_ * keys_) : nullptr;
    T* qRstd = norms ? kept_.qRstd.need(outputs_ * config_.heads) : nullptr;
    T* kRstd = norms ? kept_.kRstd.need(tokens_ * config_.kvHeads) : nullptr;
    const auto queryHeads = [&](int64_t from, int64_t to, const T* x) {
      heads(Projection::q, from, to, x, config_.heads, wq, offsets_.qBias, offsets_.qNorm, queryPlaces(), rawQ, qRstd, q);
    };
    forBlocks<T>(compute_, tokens_, [&](int64_t from, int64_t to) {
      T* x = normed + from * hidden_;
      norm(from, to, context_.x, offsets_.inputNorm, x, rstd);
      heads(Projection::k, from, to, x, config_.kvHeads, wk, offsets_.kBias, offsets_.kNorm, allPlaces(), rawK, kRstd, k);
      product(to - from, x, wv, offsets_.vBias, v + from * keys_);
      adapt(Projection::v, from, to - from, x, v + from * keys_);
      if (wanted_ == nullptr) queryHeads(from, to, x);
    });
    if (wanted_ == nullptr) return;
    const T* some = pick(normed);
    forBlocks<T>(compute_, outputs_, [&](int64_t from, int64_t to) { queryHeads(from, to, some + from * hidden_); });
  }

  void feedForward(T* next) {
    const PackedMatrix<T>& wo = forwards(0, offsets_.o, queries_, hidden_);
    const PackedMatrix<T>& gate = forwards(1, offsets_.gate, hidden_, inner_);
    const PackedMatrix<T>& up = forwards(2, offsets_.up, hidden_, inner_);
    const PackedMatrix<T>& down = forwards(3, offsets_.down, inner_, hidden_);
    T* middle = kept_.middle.need(outputs_ * hidden_);
    T* rstd = kept_.middleRstd.need(outputs_);
    T* gates = kept_.gate.need(outputs_ * inner_);
    T* ups = kept_.up.need(outputs_ * inner_);
    forBlocks<T>(compute_, outputs_, [&](int64_t from, int64_t to) {
      const int64_t count = to - from, begin = from * hidden_;
      for (int64_t i = from; i < to; i++) std::copy_n(context_.x + row(i) * hidden_, hidden_, middle + i * hidden_);
      product(count, kept_.attended.data() + from * queries_, wo, offsets_.oBias, middle + begin, true);
      adapt(Projection::o, from, count, kept_.attended.data() + from * queries_, middle + begin);
      T* normed = blockScratch<T>().need(count * (hidden_ + inner_));
      T* active = normed + count * hidden_;
      norm(from, to, middle, offsets_.postNorm, normed, rstd);
      product(count, normed, gate, offsets_.gateBias, gates + from * inner_);
      product(count, normed, up, offsets_.upBias, ups + from * inner_);
      adapt(Projection::gate, from, count, normed, gates + from * inner_);
      adapt(Projection::up, from, count, normed, ups + from * inner_);
      swiglu(compute_, count * inner_, gates + from * inner_, ups + from * inner_, active);
      std::copy_n(middle + begin, count * hidden_, next + begin);
      product(count, active, down, offsets_.downBias, next + begin, true);
      adapt(Projection::down, from, count, active, next + begin);
    });
  }

  /** `stream` of the wanted rows: through the feed-forward part to the attended rows. */
  void feedForwardBackward(T* stream) {
    const PackedMatrix<T>& down = backwards(0, offsets_.down, inner_, hidden_);
    const PackedMatrix<T>& gate = backwards(1, offsets_.gate, hidden_, inner_);
    const PackedMatrix<T>& up = backwards(2, offsets_.up, hidden_, inner_);
    T* active = work_.activated.need(outputs_ * inner_);
    T* gates = kept_.gate.data();
    T* ups = kept_.up.data();
    forBlocks<T>(compute_, outputs_, [&](int64_t from, int64_t to) {
      const int64_t count = (to - from) * inner_, begin = from * inner_;
      T* dActive = blockScratch<T>().need(count);
      swiglu(compute_, count, gates + begin, ups + begin, active + begin);
      product(to - from, stream + from * hidden_, down, absent, dActive);
      adaptBackward(Projection::down, from, to - from, stream + from * hidden_, dActive);
      swigluBackward(compute_, count, gates + begin, ups + begin, dActive);
    });
    weightGradient(Projection::down, outputs_, inner_, hidden_, active, stream, offsets_.down, offsets_.downBias);

    const PackedMatrix<T>& wo = backwards(0, offsets_.o, queries_, hidden_);
    T* normed = work_.normed.need(tokens_ * hidden_);
    T* dNormed = work_.dNormed.need(tokens_ * hidden_);
    T* dAttended = work_.dAttended.need(outputs_ * queries_);
    const T* middle = kept_.middle.data();
    forBlocks<T>(compute_, outputs_, [&](int64_t from, int64_t to) {
      const int64_t count = to - from, begin = from * hidden_;
      norm(from, to, middle, offsets_.postNorm, normed + begin, kept_.middleRstd.data());
      product(count, gates + from * inner_, gate, absent, dNormed + begin);
      product(count, ups + from * inner_, up, absent, dNormed + begin, true);
      adaptBackward(Projection::gate, from, count, gates + from * inner_, dNormed + begin);
      adaptBackward(Projection::up, from, count, ups + from * inner_, dNormed + begin);
      rmsNormBackward<T>(compute_, count, hidden_, middle + begin, weight(offsets_.postNorm),
                         kept_.middleRstd.data() + from, dNormed + begin, stream + begin, true, nullptr);
      product(count, stream + begin, wo, absent, dAttended + from * queries_);
      adaptBackward(Projection::o, from, count, stream + begin, dAttended + from * queries_);
    });
    weightGradient(Projection::gate, outputs_, hidden_, inner_, normed, gates, offsets_.gate, offsets_.gateBias);
    weightGradient(Projection::up, outputs_, hidden_, inner_, normed, ups, offsets_.up, offsets_.upBias);
    rmsNormBackward<T>(compute_, outputs_, hidden_, middle, weight(offsets_.postNorm), kept_.middleRstd.data(),
                       dNormed, nullptr, false, gradient(offsets_.postNorm));
    weightGradient(Projection::o, outputs_, queries_, hidden_, kept_.attended.data(), stream, offsets_.o, offsets_.oBias);
  }

  /** The gradient of the projected heads from that of the rotated ones, in place. */
  void headsBackward(int64_t rowCount, int64_t count, int64_t norm, const std::vector<int32_t>& places,
                     const Buffer<T>& raw, const Buffer<T>& rstd, T* dy) {
    rope(compute_, rowCount, count, positions(places, 0), context_.rope, dy, true);
    if (norm == absent) return;
    rmsNormBackward(compute_, rowCount * count, config_.headDim, raw.data(), weight(norm), rstd.data(), dy, dy, false,
                    gradient(norm));
  }

  /** The rows of a gradient go where they belong among all tokens; the others get none. */
  void spread(T* stream) {
    if (wanted_ == nullptr) return;
    for (int64_t i = outputs_ - 1; i >= 0; i--) {
      if (row(i) != i) std::copy_n(stream + i * hidden_, hidden_, stream + row(i) * hidden_);
    }
    int64_t next = 0;
    for (int64_t t = 0; t < tokens_; t++) {
      if (next < outputs_ && row(next) == t) next++;
      else std::fill_n(stream + t * hidden_, hidden_, T(0));
    }
  }

  void projectBackward(T* stream, T* dq, T* dk, T* dv) {
    headsBackward(outputs_, config_.heads, offsets_.qNorm, queryPlaces(), kept_.rawQ, kept_.qRstd, dq);
    headsBackward(tokens_, config_.kvHeads, offsets_.kNorm, allPlaces(), kept_.rawK, kept_.kRstd, dk);
    spread(stream);
    const PackedMatrix<T>& wq = backwards(0, offsets_.q, hidden_, queries_);
    const PackedMatrix<T>& wk = backwards(1, offsets_.k, hidden_, keys_);
    const PackedMatrix<T>& wv = backwards(2, offsets_.v, hidden_, keys_);
    T* normed = work_.normed.need(tokens_ * hidden_);
    T* dNormed = work_.dNormed.need(tokens_ * hidden_);
    T* fromQueries = nullptr;
    if (wanted_ != nullptr) {
      fromQueries = work_.picked.need(outputs_ * hidden_);
      forBlocks<T>(compute_, outputs_, [&](int64_t from, int64_t to) {
        product(to - from, dq + from * queries_, wq, absent, fromQueries + from * hidden_);
        adaptBackward(Projection::q, from, to - from, dq + from * queries_, fromQueries + from * hidden_);
      });
    }
    const Kernels<T>& kernel = kernels<T>(compute_.isa);
    forBlocks<T>(compute_, tokens_, [&](int64_t from, int64_t to) {
      const int64_t count = to - from, begin = from * hidden_;
      norm(from, to, context_.x, offsets_.inputNorm, normed + begin, kept_.inputRstd.data());
      product(count, dk + from * keys_, wk, absent, dNormed + begin);
      product(count, dv + from * keys_, wv, absent, dNormed + begin, true);
      adaptBackward(Projection::k, from, count, dk + from * keys_, dNormed + begin);
      adaptBackward(Projection::v, from, count, dv + from * keys_, dNormed + begin);
      if (wanted_ == nullptr) {
        product(count, dq + from * queries_, wq, absent, dNormed + begin, true);
        adaptBackward(Projection::q, from, count, dq + from * queries_, dNormed + begin);
      } else {
        for (auto at = std::lower_bound(wanted_->begin(), wanted_->end(), from); at != wanted_->end() && *at < to; ++at) {
          kernel.add(hidden_, dNormed + *at * hidden_, fromQueries + (at - wanted_->begin()) * hidden_);
        }
      }
      rmsNormBackward<T>(compute_, count, hidden_, context_.x + begin, weight(offsets_.inputNorm),
                         kept_.inputRstd.data() + from, dNormed + begin, stream + begin, true, nullptr);
    });
    rmsNormBackward<T>(compute_, tokens_, hidden_, context_.x, weight(offsets_.inputNorm), kept_.inputRstd.data(),
                       dNormed, nullptr, false, gradient(offsets_.inputNorm));
    weightGradient(Projection::k, tokens_, hidden_, keys_, normed, dk, offsets_.k, offsets_.kBias);
    weightGradient(Projection::v, tokens_, hidden_, keys_, normed, dv, offsets_.v, offsets_.vBias);
    weightGradient(Projection::q, outputs_, hidden_, queries_, pick(normed), dq, offsets_.q, offsets_.qBias);
  }

  const LayerContext<T>& context_;
  const Compute& compute_;
  const ModelConfig& config_;
  const LayerOffsets& offsets_;
  Workspace<T>& work_;
  LayerActivations<T>& kept_;
  const Rows* const wanted_;
  const int64_t tokens_, outputs_, hidden_, inner_, queries_, keys_;
  T* gradients_ = nullptr;
};

}  // namespace

template <class T>
void layerForward(const LayerContext<T>& layer, T* next) {
  Layer<T>(layer).forward(next);
}

template <class T>
void layerBackward(const LayerContext<T>& layer, T* stream, T* gradients) {
  Layer<T>(layer).backward(stream, gradients);
}

template void layerForward<float>(const LayerContext<float>&, float*);
template void layerForward<double>(const LayerContext<double>&, double*);
template void layerBackward<float>(const LayerContext<float>&, float*, float*);
template void layerBackward<double>(const LayerContext<double>&, double*, double*);

}  // namespace primerl
