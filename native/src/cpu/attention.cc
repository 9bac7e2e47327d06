// Causal attention of packed sequences. Forward tasks are chunks of queries of one head of keys; backward tasks are
// whole sequences of one head of keys, so that gradients of keys and values have one order of summation.
#include <algorithm>
#include <cmath>

#include "attention_block.h"
#include "primerl/ops.h"

namespace primerl {

namespace {

constexpr int64_t queryChunk = 256;

/** Which token a row of queries belongs to. */
class QueryPlaces {
 public:
  explicit QueryPlaces(const Rows* rows) : rows_(rows) {}

  int64_t token(int64_t row) const { return rows_ == nullptr ? row : (*rows_)[static_cast<size_t>(row)]; }

  /** The first row at or after a token. */
  int64_t from(int64_t token) const {
    return rows_ == nullptr ? token : std::lower_bound(rows_->begin(), rows_->end(), token) - rows_->begin();
  }

 private:
  const Rows* rows_;
};

/** Rows [from, to) of the queries of one sequence, which see up to `seen` of its keys. */
struct ForwardTask {
  int64_t start;
  int64_t from;
  int64_t to;
  int64_t seen;
  int64_t kvHead;
};

/** Rows `count` of one head, `stride` elements apart, as columns of panels; the last panel is filled with zeros. */
template <class T>
void packPanels(const Kernels<T>& kernel, int64_t count, int64_t width, const T* source, int64_t stride, T* panels) {
  for (int64_t j = 0; j < count; j += kernel.tileColumns) {
    const int64_t columns = std::min<int64_t>(kernel.tileColumns, count - j);
    kernel.packColumns(static_cast<int>(columns), kernel.tileColumns, width, source + j * stride, 1, stride,
                       panels + j * width);
  }
}

/** Rows of one head with zeros up to the padded width. */
template <class T>
void copyPadded(int64_t count, int64_t headDim, int64_t width, const T* source, int64_t stride, T* out) {
  for (int64_t j = 0; j < count; j++) {
    std::copy_n(source + j * stride, headDim, out + j * width);
    std::fill(out + j * width + headDim, out + (j + 1) * width, T(0));
  }
}

template <class T>
void attendChunk(const Kernels<T>& kernel, const AttentionShape& shape, const QueryPlaces& places,
                 const ForwardTask& task, const T* q, const T* k, const T* v, T* out) {
  static thread_local Buffer<T> panelBuffer, valueBuffer, scratch;
  const int64_t headDim = shape.headDim, width = paddedWidth(kernel, headDim);
  const int64_t queryStride = shape.heads * headDim, keyStride = shape.kvHeads * headDim;
  const int64_t group = shape.heads / shape.kvHeads;
  T* panels = panelBuffer.need(panelElements(kernel, task.seen, headDim));
  T* values = valueBuffer.need(task.seen * width);
  const int64_t offset = task.start * keyStride + task.kvHead * headDim;
  packPanels(kernel, task.seen, headDim, k + offset, keyStride, panels);
  copyPadded(task.seen, headDim, width, v + offset, keyStride, values);
  std::vector<QueryRow<T>> queries(static_cast<size_t>(kernel.tileRows));
  for (int64_t head = task.kvHead * group; head < (task.kvHead + 1) * group; head++) {
    for (int64_t i = task.from; i < task.to; i += kernel.tileRows) {
      const int rows = static_cast<int>(std::min<int64_t>(kernel.tileRows, task.to - i));
      for (int r = 0; r < rows; r++) {
        const int64_t at = (i + r) * queryStride + head * headDim;
        queries[static_cast<size_t>(r)] = {q + at, out + at, places.token(i + r) - task.start + 1};
      }
      attentionBlock(kernel, rows, headDim, queries.data(), panels, values, scratch);
    }
  }
}

/** The gradients of one sequence of one head of keys, whose queries are the rows [first, last). */
template <class T>
class BackwardTask {
 public:
  BackwardTask(const Kernels<T>& kernel, const AttentionShape& shape, const QueryPlaces& places, int64_t start,
               int64_t length, int64_t kvHead)
      : kernel_(kernel), shape_(shape), places_(places), start_(start), length_(length), first_(places.from(start)),
        last_(places.from(start + length)), kvHead_(kvHead), headDim_(shape.headDim),
        width_(paddedWidth(kernel, shape.headDim)), queryStride_(shape.heads * shape.headDim),
        keyStride_(shape.kvHeads * shape.headDim), blockRows_(4 * kernel.tileRows),
        scale_(T(1 / std::sqrt(static_cast<double>(shape.headDim)))) {}

  void run(const T* q, const T* k, const T* v, const T* out, const T* dOut, T* dq, T* dk, T* dv) {
    static thread_local Buffer<T> buffer;
    const int64_t panels = panelElements(kernel_, length_, headDim_), rows = length_ * width_;
    T* memory = buffer.need(2 * panels + 3 * rows + 4 * blockRows_ * width_ + 2 * blockRows_ * length_ +
                            kernel_.tileRows * (headDim_ + length_));
    const auto take = [&memory](int64_t count) {
      T* part = memory;
      memory += count;
      return part;
    };
    keyPanels_ = take(panels);
    valuePanels_ = take(panels);
    keyRows_ = take(rows);
    keyGradients_ = take(rows);
    valueGradients_ = take(rows);
    queryBlock_ = take(blockRows_ * width_);
    outBlock_ = take(2 * blockRows_ * width_);
    queryGradients_ = take(blockRows_ * width_);
    probabilities_ = take(blockRows_ * length_);
    scoreGradients_ = take(blockRows_ * length_);
    packed_ = take(kernel_.tileRows * (headDim_ + length_));

    const int64_t offset = start_ * keyStride_ + kvHead_ * headDim_;
    packPanels(kernel_, length_, headDim_, k + offset, keyStride_, keyPanels_);
    packPanels(kernel_, length_, headDim_, v + offset, keyStride_, valuePanels_);
    copyPadded(length_, headDim_, width_, k + offset, keyStride_, keyRows_);
    std::fill_n(keyGradients_, rows, T(0));
    std::fill_n(valueGradients_, rows, T(0));
    const int64_t group = shape_.heads / shape_.kvHeads;
    for (int64_t head = kvHead_ * group; head < (kvHead_ + 1) * group; head++) {
      for (int64_t i = first_; i < last_; i += blockRows_) {
        block(head, i, std::min(blockRows_, last_ - i), q, out, dOut, dq);
      }
    }
    for (int64_t j = 0; j < length_; j++) {
      std::copy_n(keyGradients_ + j * width_, headDim_, dk + offset + j * keyStride_);
      std::copy_n(valueGradients_ + j * width_, headDim_, dv + offset + j * keyStride_);
    }
  }

 private:
  /** Keys that a row of queries sees. */
  int64_t seenBy(int64_t row) const { return places_.token(row) - start_ + 1; }

  void block(int64_t head, int64_t i, int64_t count, const T* q, const T* out, const T* dOut, T* dq) {
    const int64_t seen = seenBy(i + count - 1), at = i * queryStride_ + head * headDim_;
    copyPadded(count, headDim_, width_, q + at, queryStride_, queryBlock_);
    for (int64_t n = 0; n < count * width_; n++) queryBlock_[n] *= scale_;
    copyPadded(count, headDim_, width_, dOut + at, queryStride_, outBlock_);
    for (int64_t r = 0; r < count; r += kernel_.tileRows) {
      const int rows = static_cast<int>(std::min<int64_t>(kernel_.tileRows, count - r));
      // keys beyond the last row of this tile are zero in both matrices
      const int64_t visible = seenBy(i + r + rows - 1);
      T* p = probabilities_ + r * seen;
      T* ds = scoreGradients_ + r * seen;
      kernel_.packRows(rows, headDim_, queryBlock_ + r * width_, width_, 1, packed_);
      timesPanels(kernel_, rows, headDim_, packed_, visible, keyPanels_, p, seen);
      kernel_.packRows(rows, headDim_, outBlock_ + r * width_, width_, 1, packed_);
      timesPanels(kernel_, rows, headDim_, packed_, visible, valuePanels_, ds, seen);
      for (int row = 0; row < rows; row++) {
        const int64_t length = seenBy(i + r + row);
        const int64_t place = (i + r + row) * queryStride_ + head * headDim_;
        kernel_.softmax(length, p + row * seen);
        const T pull = kernel_.dot(headDim_, out + place, dOut + place);
        // One key has all the weight whatever its score: exactly no gradient, not what rounding leaves of it.
        if (length == 1) ds[row * seen] = T(0);
        else kernel_.scoreGradient(length, ds + row * seen, p + row * seen, pull);
        std::fill(p + row * seen + length, p + (row + 1) * seen, T(0));
        std::fill(ds + row * seen + length, ds + (row + 1) * seen, T(0));
      }
      kernel_.packRows(rows, visible, ds, seen, 1, packed_);
      T* gradients = queryGradients_ + r * width_;
      timesRows(kernel_, rows, visible, packed_, rows, keyRows_, width_, gradients, width_, width_, false);
      for (int row = 0; row < rows; row++) {
        T* to = dq + at + (r + row) * queryStride_;
        for (int64_t n = 0; n < headDim_; n++) to[n] = gradients[row * width_ + n] * scale_;
      }
    }
    for (int64_t j = 0; j < seen; j += kernel_.tileRows) {
      const int rows = static_cast<int>(std::min<int64_t>(kernel_.tileRows, seen - j));
      // queries before key j do not see it
      const int64_t first = std::max(i, places_.from(start_ + j)) - i, rest = count - first;
      const int64_t from = first * seen + j, fromRow = first * width_;
      timesRows(kernel_, rows, rest, scoreGradients_ + from, seen, queryBlock_ + fromRow, width_,
                keyGradients_ + j * width_, width_, width_, true);
      timesRows(kernel_, rows, rest, probabilities_ + from, seen, outBlock_ + fromRow, width_,
                valueGradients_ + j * width_, width_, width_, true);
    }
  }

  const Kernels<T>& kernel_;
  const AttentionShape& shape_;
  const QueryPlaces& places_;
  const int64_t start_, length_, first_, last_, kvHead_, headDim_, width_, queryStride_, keyStride_, blockRows_;
  const T scale_;
  T *keyPanels_ = nullptr, *valuePanels_ = nullptr, *keyRows_ = nullptr;
  T *keyGradients_ = nullptr, *valueGradients_ = nullptr, *queryGradients_ = nullptr;
  T *queryBlock_ = nullptr, *outBlock_ = nullptr, *packed_ = nullptr;
  T *probabilities_ = nullptr, *scoreGradients_ = nullptr;
};

}  // namespace

template <class T>
void attention(const Compute& compute, const AttentionShape& shape, const Positions& positions, const Rows* queries,
               const T* q, const T* k, const T* v, T* out) {
  const QueryPlaces places(queries);
  std::vector<ForwardTask> tasks;
  for (size_t s = 0; s + 1 < positions.starts.size(); s++) {
    const int64_t start = positions.starts[s], last = places.from(positions.starts[s + 1]);
    for (int64_t from = places.from(start); from < last; from += queryChunk) {
      const int64_t to = std::min(from + queryChunk, last);
      for (int64_t kvHead = 0; kvHead < shape.kvHeads; kvHead++) {
        tasks.push_back({start, from, to, places.token(to - 1) - start + 1, kvHead});
      }
    }
  }
  // the costly ones first, so that the threads end together
  std::stable_sort(tasks.begin(), tasks.end(), [](const ForwardTask& a, const ForwardTask& b) { return a.seen > b.seen; });
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  compute.pool.parallelTasks(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    attendChunk(kernel, shape, places, tasks[static_cast<size_t>(index)], q, k, v, out);
  });
}

template <class T>
void attentionBackward(const Compute& compute, const AttentionShape& shape, const Positions& positions,
                       const Rows* queries, const T* q, const T* k, const T* v, const T* out, const T* dOut, T* dq,
                       T* dk, T* dv) {
  const QueryPlaces places(queries);
  const int64_t sequences = static_cast<int64_t>(positions.starts.size()) - 1;
  std::vector<int64_t> order;
  for (int64_t s = 0; s < sequences; s++) order.push_back(s);
  const auto length = [&](int64_t s) {
    return positions.starts[static_cast<size_t>(s) + 1] - positions.starts[static_cast<size_t>(s)];
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  compute.pool.parallelTasks(sequences * shape.kvHeads, [&](int64_t index) {
    const int64_t s = order[static_cast<size_t>(index / shape.kvHeads)];
    BackwardTask<T>(kernel, shape, places, positions.starts[static_cast<size_t>(s)], length(s), index % shape.kvHeads)
        .run(q, k, v, out, dOut, dq, dk, dv);
  });
}

#define PRIMERL_ATTENTION(T)                                                                                        \
  template void attention<T>(const Compute&, const AttentionShape&, const Positions&, const Rows*, const T*,        \
                             const T*, const T*, T*);                                                               \
  template void attentionBackward<T>(const Compute&, const AttentionShape&, const Positions&, const Rows*,          \
                                     const T*, const T*, const T*, const T*, const T*, T*, T*, T*);

PRIMERL_ATTENTION(float)
PRIMERL_ATTENTION(double)
#undef PRIMERL_ATTENTION

}  // namespace primerl
