#include "primerl/decode.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "few_rows.h"
#include "kv_cache.h"
#include "paged_attention.h"
#include "primerl/error.h"
#include "primerl/gemm.h"
#include "primerl/ops.h"

namespace primerl {

namespace {

using Vector = std::vector<float>;

constexpr int64_t queryChunk = 256;

/** A and B of one projection; without columns where there are none. */
struct LowRank {
  PackedMatrix<float> a, b;
};

/** A matrix and its bias, which is empty when the model has none. */
struct PackedLinear {
  PackedMatrix<float> matrix;
  Vector bias;

  void load(const Compute& compute, const float* weights, int64_t at, int64_t biasAt, int64_t in, int64_t out) {
    matrix.pack(compute, in, out, transposed(weights + at, in));
    if (biasAt != absent) bias.assign(weights + biasAt, weights + biasAt + out);
  }

  void apply(const Compute& compute, int64_t count, const float* x, float* y, bool accumulate = false) const {
    product(compute, count, x, matrix, y, accumulate);
    if (!bias.empty()) addBias(compute, count, matrix.columns(), bias.data(), y);
  }
};

struct DecoderLayer {
  Vector inputNorm, qNorm, kNorm, postNorm;
  PackedLinear q, k, v, o, gate, up, down;
};

/** Queries [from, to) of one input over one head of keys. */
struct Task {
  int64_t input;
  int64_t from;
  int64_t to;
  int64_t kvHead;
};

}  // namespace

struct DecoderAdapter::State {
  using Layer = std::array<LowRank, projectionCount>;
  std::vector<Layer> layers;
  int64_t rank;
  float scale;

  /** y += scale · B·A·x for `count` rows, in the order in which a training pass does it. */
  void add(const Compute& compute, int64_t layer, Projection projection, int64_t count, const float* x, float* y) const {
    static thread_local Buffer<float> scratch;
    const LowRank& pair = layers[static_cast<size_t>(layer)][static_cast<size_t>(projection)];
    if (pair.a.columns() == 0) return;
    float* low = scratch.need(count * rank);
    product(compute, count, x, pair.a, low, false);
    for (int64_t i = 0; i < count * rank; i++) low[i] *= scale;
    product(compute, count, low, pair.b, y, true);
  }
};

DecoderAdapter::DecoderAdapter(const Compute& compute, const ModelConfig& config, const LoraPass<float>& adapter)
    : state_(std::make_unique<State>()) {
  const LoraOptions& options = adapter.layout->options();
  state_->rank = options.rank;
  state_->scale = static_cast<float>(options.scale);
  state_->layers.resize(static_cast<size_t>(config.layers));
  for (int64_t layer = 0; layer < config.layers; layer++) {
    for (size_t index = 0; index < projectionCount; index++) {
      const LoraLayout::Pair& at = adapter.layout->pair(layer, static_cast<Projection>(index));
      if (at.a == absent) continue;
      const ProjectionShape shape = shapeOf(config, static_cast<Projection>(index));
      LowRank& pair = state_->layers[static_cast<size_t>(layer)][index];
      pair.a.pack(compute, shape.in, options.rank, transposed(adapter.weights + at.a, shape.in));
      pair.b.pack(compute, options.rank, shape.out, transposed(adapter.weights + at.b, options.rank));
    }
  }
}

DecoderAdapter::~DecoderAdapter() = default;

struct Decoder::State {
  State(const ModelConfig& modelConfig, Isa instructions)
      : config(modelConfig), isa(instructions), layout(modelConfig), rope(modelConfig),
        kernel(kernels<float>(instructions)), layers(static_cast<size_t>(modelConfig.layers)) {}

  const ModelConfig config;
  const Isa isa;
  const Layout layout;
  RopeTable<float> rope;
  const Kernels<float>& kernel;
  bool loaded = false;
  /** that the weights were packed for */
  Precision precision = Precision::float32, headPrecision = Precision::float32;
  Vector embeddings, finalNorm;
  std::vector<DecoderLayer> layers;
  PackedLinear headProjection;

  // of the running pass
  std::vector<int32_t> ids, positions;
  /** row of each input's first token, and the number of rows at the end */
  std::vector<int64_t> starts;
  /** rows side by side that are of one adapter */
  struct Stretch {
    const DecoderAdapter* adapter;
    int64_t from;
    int64_t count;
  };
  std::vector<Stretch> stretches;
  Buffer<float> x, normed, q, k, v, attended, gate, up, rstd, last;

  int64_t count() const { return starts.back(); }

  /** Packed weights and caches are arranged for one instruction set and one precision. */
  void checkArrangement(const Compute& compute) const {
    if (loaded && (compute.precision != precision || compute.headPrecision != headPrecision)) {
      throw Error("ERR_STATE", "The decoder's weights were loaded for another precision. Load them again.");
    }
    if (compute.isa == isa) return;
    throw Error("ERR_STATE", std::string("The decoder was made for ") + isaName(isa) + ", but is asked to run " +
                                 isaName(compute.isa) + ". Make one for each instruction set.");
  }

  void begin(const std::vector<DecodeInput>& inputs);
  void attend(const Compute& compute, const std::vector<DecodeInput>& inputs, int64_t layer);
  void attendTask(const DecodeInput& input, const Task& task, int64_t layer);
  void runLayer(const Compute& compute, const std::vector<DecodeInput>& inputs, int64_t index);

  /** What the adapters of the rows add to y, their projection of x. */
  void adapt(const Compute& compute, int64_t layer, Projection projection, const float* x, float* y) const {
    const ProjectionShape shape = shapeOf(config, projection);
    for (const Stretch& stretch : stretches) {
      stretch.adapter->state().add(compute, layer, projection, stretch.count, x + stretch.from * shape.in,
                                   y + stretch.from * shape.out);
    }
  }

  void norm(const Compute& compute, int64_t number, int64_t width, const float* from, const Vector& w, float* to) {
    rmsNorm(compute, number, width, from, w.data(), config.rmsNormEps, to, rstd.need(number));
  }
};

void Decoder::State::begin(const std::vector<DecodeInput>& inputs) {
  const auto refuse = [](size_t index, const std::string& what) {
    throw Error("ERR_BATCH", "Decoding input " + std::to_string(index) + " " + what);
  };
  if (!loaded) throw Error("ERR_STATE", "The decoder has no weights. Call load first.");
  ids.clear();
  positions.clear();
  starts.assign(1, 0);
  stretches.clear();
  std::set<const KvCache*> seen;
  for (size_t index = 0; index < inputs.size(); index++) {
    const DecodeInput& input = inputs[index];
    if (input.count < 1) refuse(index, "has no tokens; give it at least 1.");
    if (!seen.insert(input.cache).second) refuse(index, "has the cache of an earlier input; give each its own.");
    const KvCache::State& cache = input.cache->state();
    if (cache.length + input.count > config.maxPositionEmbeddings) {
      refuse(index, "would reach " + std::to_string(cache.length + input.count) + " tokens, the model has " +
                        std::to_string(config.maxPositionEmbeddings) + " positions.");
    }
    for (int64_t i = 0; i < input.count; i++) {
      const int32_t id = input.tokenIds[i];
      if (id < 0 || id >= config.vocabSize) {
        refuse(index, "has token id " + std::to_string(id) + ", outside the vocabulary of " +
                          std::to_string(config.vocabSize) + ".");
      }
      ids.push_back(id);
      positions.push_back(static_cast<int32_t>(cache.length + i));
    }
    rope.cover(cache.length + input.count);
    const int64_t from = starts.back();
    starts.push_back(from + input.count);
    if (input.adapter == nullptr) continue;
    const bool goesOn = !stretches.empty() && stretches.back().adapter == input.adapter &&
                        stretches.back().from + stretches.back().count == from;
    if (goesOn) stretches.back().count += input.count;
    else stretches.push_back({input.adapter, from, input.count});
  }
  for (const DecodeInput& input : inputs) input.cache->state().reserve(input.cache->state().length + input.count);
}

void Decoder::State::attendTask(const DecodeInput& input, const Task& task, int64_t layer) {
  static thread_local Buffer<float> scratch;
  static thread_local std::vector<PagedQuery> queries;
  const KvCache::State& cache = input.cache->state();
  const int64_t stream = layer * config.kvHeads + task.kvHead, group = config.heads / config.kvHeads;
  const int64_t first = task.kvHead * group, start = starts[static_cast<size_t>(task.input)];
  queries.clear();
  const auto flush = [&] {
    if (!queries.empty()) pagedAttention(cache, stream, static_cast<int>(queries.size()), queries.data(), scratch);
    queries.clear();
  };
  for (int64_t i = task.from; i < task.to; i++) {
    for (int64_t head = first; head < first + group; head++) {
      const int64_t at = (start + i) * config.queryDim() + head * config.headDim;
      queries.push_back({q.data() + at, attended.data() + at, cache.length + i + 1});
      if (static_cast<int>(queries.size()) == kernel.tileRows) flush();
    }
  }
  flush();
}

void Decoder::State::attend(const Compute& compute, const std::vector<DecodeInput>& inputs, int64_t layer) {
  const int64_t number = static_cast<int64_t>(inputs.size());
  compute.pool.parallelTasks(number * config.kvHeads, [&](int64_t index) {
    const int64_t kvHead = index % config.kvHeads;
    const size_t at = static_cast<size_t>(index / config.kvHeads);
    const KvCache::State& cache = inputs[at].cache->state();
    for (int64_t i = 0; i < inputs[at].count; i++) {
      const int64_t from = (starts[at] + i) * config.kvDim() + kvHead * config.headDim;
      storeToken(cache, layer * config.kvHeads + kvHead, cache.length + i, k.data() + from, v.data() + from);
    }
  });
  std::vector<Task> tasks;
  for (int64_t input = 0; input < number; input++) {
    const int64_t length = inputs[static_cast<size_t>(input)].count;
    for (int64_t from = 0; from < length; from += queryChunk) {
      for (int64_t kvHead = 0; kvHead < config.kvHeads; kvHead++) {
        tasks.push_back({input, from, std::min(from + queryChunk, length), kvHead});
      }
    }
  }
  compute.pool.parallelTasks(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    const Task& task = tasks[static_cast<size_t>(index)];
    attendTask(inputs[static_cast<size_t>(task.input)], task, layer);
  });
}

void Decoder::State::runLayer(const Compute& compute, const std::vector<DecodeInput>& inputs, int64_t index) {
  const DecoderLayer& layer = layers[static_cast<size_t>(index)];
  const int64_t n = count(), hidden = config.hiddenSize, inner = config.intermediateSize;
  norm(compute, n, hidden, x.data(), layer.inputNorm, normed.need(n * hidden));
  layer.q.apply(compute, n, normed.data(), q.need(n * config.queryDim()));
  layer.k.apply(compute, n, normed.data(), k.need(n * config.kvDim()));
  layer.v.apply(compute, n, normed.data(), v.need(n * config.kvDim()));
  adapt(compute, index, Projection::q, normed.data(), q.data());
  adapt(compute, index, Projection::k, normed.data(), k.data());
  adapt(compute, index, Projection::v, normed.data(), v.data());
  if (config.qkNorm) {
    norm(compute, n * config.heads, config.headDim, q.data(), layer.qNorm, q.data());
    norm(compute, n * config.kvHeads, config.headDim, k.data(), layer.kNorm, k.data());
  }
  ::primerl::rope(compute, n, config.heads, positions.data(), rope, q.data(), false);
  ::primerl::rope(compute, n, config.kvHeads, positions.data(), rope, k.data(), false);
  attended.need(n * config.queryDim());
  attend(compute, inputs, index);
  layer.o.apply(compute, n, attended.data(), x.data(), true);
  adapt(compute, index, Projection::o, attended.data(), x.data());

  norm(compute, n, hidden, x.data(), layer.postNorm, normed.data());
  layer.gate.apply(compute, n, normed.data(), gate.need(n * inner));
  layer.up.apply(compute, n, normed.data(), up.need(n * inner));
  adapt(compute, index, Projection::gate, normed.data(), gate.data());
  adapt(compute, index, Projection::up, normed.data(), up.data());
  swiglu(compute, n * inner, gate.data(), up.data(), gate.data());
  layer.down.apply(compute, n, gate.data(), x.data(), true);
  adapt(compute, index, Projection::down, gate.data(), x.data());
}

Decoder::Decoder(const ModelConfig& config, Isa isa) : state_(std::make_unique<State>(config, isa)) {}
Decoder::~Decoder() = default;

KvCache Decoder::newCache() const { return KvCache(state_->config, state_->isa); }

void Decoder::load(const Compute& compute, const float* weights) {
  State& state = *state_;
  const ModelConfig& config = state.config;
  const int64_t hidden = config.hiddenSize, inner = config.intermediateSize;
  const auto vector = [&](int64_t at, int64_t size) { return Vector(weights + at, weights + at + size); };
  state.loaded = false;
  state.checkArrangement(compute);
  state.precision = compute.precision;
  state.headPrecision = compute.headPrecision;
  state.embeddings = vector(state.layout.embedding(), config.vocabSize * hidden);
  state.finalNorm = vector(state.layout.finalNorm(), hidden);
  state.headProjection.load(compute.forHead(), weights, state.layout.head(), absent, hidden, config.vocabSize);
  for (int64_t index = 0; index < config.layers; index++) {
    compute.check();
    const LayerOffsets& at = state.layout.layer(index);
    DecoderLayer& layer = state.layers[static_cast<size_t>(index)];
    layer.inputNorm = vector(at.inputNorm, hidden);
    layer.postNorm = vector(at.postNorm, hidden);
    if (config.qkNorm) {
      layer.qNorm = vector(at.qNorm, config.headDim);
      layer.kNorm = vector(at.kNorm, config.headDim);
    }
    layer.q.load(compute, weights, at.q, at.qBias, hidden, config.queryDim());
    layer.k.load(compute, weights, at.k, at.kBias, hidden, config.kvDim());
    layer.v.load(compute, weights, at.v, at.vBias, hidden, config.kvDim());
    layer.o.load(compute, weights, at.o, at.oBias, config.queryDim(), hidden);
    layer.gate.load(compute, weights, at.gate, at.gateBias, hidden, inner);
    layer.up.load(compute, weights, at.up, at.upBias, hidden, inner);
    layer.down.load(compute, weights, at.down, at.downBias, inner, hidden);
  }
  state.loaded = true;
}

void Decoder::extend(const Compute& compute, const std::vector<DecodeInput>& inputs, float* logits) {
  State& state = *state_;
  const ModelConfig& config = state.config;
  const int64_t hidden = config.hiddenSize, number = static_cast<int64_t>(inputs.size());
  if (number == 0) return;
  state.checkArrangement(compute);
  state.begin(inputs);
  embedding(compute, state.count(), hidden, state.ids.data(), state.embeddings.data(),
            state.x.need(state.count() * hidden));
  for (int64_t index = 0; index < config.layers; index++) {
    compute.check();
    state.runLayer(compute, inputs, index);
  }
  compute.check();
  float* last = state.last.need(2 * number * hidden);
  for (int64_t i = 0; i < number; i++) {
    const int64_t row = state.starts[static_cast<size_t>(i) + 1] - 1;
    std::copy_n(state.x.data() + row * hidden, hidden, last + i * hidden);
  }
  float* final = last + number * hidden;
  state.norm(compute, number, hidden, last, state.finalNorm, final);
  state.headProjection.apply(compute.forHead(), number, final, logits);
  for (const DecodeInput& input : inputs) input.cache->state().length += input.count;
}

}  // namespace primerl
