// Over 400 lines: the forward and the backward pass of a layer mirror each other line by line, and stand side by side for it.
#include "cuda/model.h"

#include <algorithm>
#include <type_traits>

#include "cuda/adamw.cuh"
#include "cuda/attention.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/head.cuh"
#include "cuda/loss.cuh"
#include "cuda/matmul.cuh"
#include "cuda/norm.cuh"
#include "cuda/place.h"
#include "primerl/layout.h"
#include "primerl/ops.h"

namespace primerl::cuda {

namespace {

/** What the backward pass of one layer needs. */
template <class T>
struct LayerActivations {
  /** after attention and its residual */
  DeviceBuffer<float> middle;
  DeviceBuffer<float> inputRstd, middleRstd, qRstd, kRstd, logSums;
  /** before the norm of each head; only with qkNorm */
  DeviceBuffer<T> rawQ, rawK;
  /** after rotation */
  DeviceBuffer<T> q, k;
  DeviceBuffer<T> v, attended, gate, up;
};

template <class T>
class TypedModel final : public DeviceModel {
 public:
  TypedModel(const ModelConfig& config, const Context& context, const DeviceModelOptions& options)
      : config_(config), context_(context), layout_(config), recompute_(options.recompute), ropeTable_(config),
        layers_(static_cast<size_t>(config.layers)), inputs_(static_cast<size_t>(config.layers) + 1) {
    withOwnColumns(int(config.headDim), [](auto) {});
    const size_t bytes = size_t(layout_.total()) * sizeof(float);
    fillZero(context_, weights_.need(layout_.total()), bytes);
    if (!options.trainable) return;
    for (DeviceBuffer<float>* arena : {&gradients_, &first_, &second_}) {
      fillZero(context_, arena->need(layout_.total()), bytes);
    }
  }

  void writeWeights(int64_t offset, int64_t count, const float* values) override {
    copyToDevice(context_, weights_.data() + offset, values, size_t(count) * sizeof(float));
    operandsAreOld_ = true;
    kept_ = false;
  }

  void readWeights(int64_t offset, int64_t count, float* into) override { read(weights_, offset, count, into); }
  void readGradients(int64_t offset, int64_t count, float* into) override { read(gradients_, offset, count, into); }

  void readMoments(int64_t offset, int64_t count, float* first, float* second) override {
    read(first_, offset, count, first);
    read(second_, offset, count, second);
  }

  void writeMoments(int64_t offset, int64_t count, const float* first, const float* second) override {
    copyToDevice(context_, first_.data() + offset, first, size_t(count) * sizeof(float));
    copyToDevice(context_, second_.data() + offset, second, size_t(count) * sizeof(float));
  }

  void score(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
             const Cancel* cancel) override {
    run(false, tokens, needed, logprobs, entropy, cancel);
  }

  void forward(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
               const Cancel* cancel) override {
    run(true, tokens, needed, logprobs, entropy, cancel);
    kept_ = true;
  }

  void backward(const float* gradient, const Cancel* cancel) override {
    if (!kept_) {
      throw Error("ERR_STATE", "There is no forward pass to go back through. Call forward before each backward.");
    }
    kept_ = false;
    const std::vector<HeadTarget> previous = targets_;
    targets_ = select([gradient](int32_t t) { return gradient[t] != 0; });
    // Statistics are those of the targets of the forward pass: both lists are in the order of tokens.
    std::vector<HeadStats> all = stats_.toHost(context_, int64_t(previous.size())), chosen;
    std::vector<float> slopes;
    size_t at = 0;
    for (const HeadTarget& target : targets_) {
      while (at < previous.size() && previous[at].token < target.token) at++;
      if (at == previous.size() || previous[at].token != target.token) {
        throw Error("ERR_BATCH", "Token " + std::to_string(target.token) +
                                     " has a gradient, but the forward pass was not asked for its log-probability.");
      }
      chosen.push_back(all[at]);
      slopes.push_back(gradient[target.token]);
    }
    targetsOnDevice_.fill(context_, targets_);
    stats_.fill(context_, chosen);
    slopes_.fill(context_, slopes);
    backwardFromSlopes(cancel);
  }

  LossSums forwardBackward(const Batch& batch, const Counts& counts, const LossSpec& loss, float* logprobs,
                           float* entropy, const Cancel* cancel) override {
    const std::vector<uint8_t> needed = neededTokens(batch);
    run(true, batch, needed.data(), logprobs, entropy, cancel);
    const int64_t count = int64_t(targets_.size());
    LossSums sums;
    if (count > 0) {
      const Batch onDevice = streams_.fill(context_, batch);
      tokenLosses(context_, count, targetsOnDevice_.data(), onDevice, loss, counts, logprobs_.data(),
                  slopes_.need(count), losses_.need(count), lossSums_.need(1));
      sums = lossSums_.toHost(context_, 1)[0];
    }
    backwardFromSlopes(cancel);
    return sums;
  }

  void zeroGradients() override {
    fillZero(context_, gradients_.data(), size_t(layout_.total()) * sizeof(float));
  }

  AdamWReport optimizerStep(const AdamW& options, int64_t& steps) override {
    AdamWReport report;
    report.gradNorm = globalNorm(context_, layout_.total(), gradients_.data(), squares_);
    AdamWStep step;
    if (!adamwNumbers<float>(options, steps, report.gradNorm, step)) return report;
    adamw(context_, layout_.total(), step, weights_.data(), gradients_.data(), first_.data(), second_.data());
    operandsAreOld_ = true;
    kept_ = false;
    steps++;
    report.applied = true;
    return report;
  }

 private:
  void read(const DeviceBuffer<float>& arena, int64_t offset, int64_t count, float* into) {
    copyToHost(context_, into, arena.data() + offset, size_t(count) * sizeof(float));
  }

  AttentionSizes attentionSizes() const { return {int(config_.heads), int(config_.kvHeads), int(config_.headDim)}; }
  HeadSizes headSizes() const { return {config_.hiddenSize, config_.vocabSize}; }

  const float* weight(int64_t offset) const { return weights_.data() + offset; }
  float* gradient(int64_t offset) { return gradients_.data() + offset; }

  /** The tensor as products take it. */
  const T* operand(int64_t offset) const {
    if constexpr (std::is_same<T, float>::value) return weights_.data() + offset;
    else return operands_.data() + offset;
  }

  void refreshOperands() {
    if constexpr (!std::is_same<T, float>::value) {
      if (operandsAreOld_) convert(context_, layout_.total(), weights_.data(), operands_.need(layout_.total()));
    }
    operandsAreOld_ = false;
  }

  /** A gradient in float as products take it. */
  const T* asOperand(const float* values, int64_t count) {
    if constexpr (std::is_same<T, float>::value) {
      return values;
    } else {
      T* rounded = rounded_.need(count);
      convert(context_, count, values, rounded);
      return rounded;
    }
  }

  RopeAngles angles() const { return {config_.headDim / 2, cosines_.data(), sines_.data()}; }

  void coverPositions(const Tokens& tokens) {
    int64_t longest = covered_;
    for (int64_t s = 0; s < tokens.sequences; s++) longest = std::max<int64_t>(longest, tokens.sequenceLengths[s]);
    if (longest == covered_) return;
    ropeTable_.cover(longest);
    const int64_t count = longest * ropeTable_.half();
    cosines_.fill(context_, ropeTable_.cosines(0), count);
    sines_.fill(context_, ropeTable_.sines(0), count);
    covered_ = longest;
  }

  float* input(int64_t layer) {
    return inputs_[size_t(training_ ? layer : layer % 2)].need(place_.tokens * config_.hiddenSize);
  }

  LayerActivations<T>& activations(int64_t layer) { return layers_[size_t(training_ && !recompute_ ? layer : 0)]; }

  template <class Out>
  void project(const T* x, int64_t in, int64_t out, int64_t w, int64_t bias, Out* y, bool accumulate) {
    linear(context_, place_.tokens, in, out, x, operand(w), y, accumulate);
    if (bias != absent) addBias(context_, place_.tokens, out, weight(bias), y);
  }

  template <class Out>
  void projectBackward(const T* x, int64_t in, int64_t out, int64_t w, int64_t bias, const T* dy, Out* dx,
                       bool accumulate) {
    linearBackward(context_, place_.tokens, in, out, x, operand(w), dy, dx, accumulate, gradient(w));
    if (bias != absent) addBiasBackward(context_, place_.tokens, out, dy, columnScratch_, gradient(bias));
  }

  T* normed(const float* x, int64_t w, DeviceBuffer<float>& rstd) {
    T* y = normed_.need(place_.tokens * config_.hiddenSize);
    rmsNorm(context_, place_.tokens, config_.hiddenSize, x, weight(w), config_.rmsNormEps, y, rstd.need(place_.tokens));
    return y;
  }

  /** Projects to heads, norms them if the model does, and rotates them. */
  void heads(const T* x, int64_t count, int64_t w, int64_t bias, int64_t norm, DeviceBuffer<T>& raw,
             DeviceBuffer<float>& rstd, DeviceBuffer<T>& out) {
    const int64_t width = count * config_.headDim, rows = place_.tokens * count;
    T* y = out.need(place_.tokens * width);
    T* projected = norm == absent ? y : raw.need(place_.tokens * width);
    project(x, config_.hiddenSize, width, w, bias, projected, false);
    if (norm != absent) {
      rmsNorm(context_, rows, config_.headDim, projected, weight(norm), config_.rmsNormEps, y, rstd.need(rows));
    }
    rope(context_, place_.tokens, count, place_.positionsOnDevice.data(), angles(), y, false);
  }

  void headsBackward(const T* x, int64_t count, int64_t w, int64_t bias, int64_t norm, const DeviceBuffer<T>& raw,
                     const DeviceBuffer<float>& rstd, T* dy, float* dNormed, bool accumulate) {
    const int64_t width = count * config_.headDim, rows = place_.tokens * count;
    rope(context_, place_.tokens, count, place_.positionsOnDevice.data(), angles(), dy, true);
    if (norm != absent) {
      rmsNormBackward(context_, rows, config_.headDim, raw.data(), weight(norm), rstd.data(), dy, dy, false,
                      columnScratch_, gradient(norm));
    }
    projectBackward(x, config_.hiddenSize, width, w, bias, dy, dNormed, accumulate);
  }

  T* activated(LayerActivations<T>& kept) {
    const int64_t count = place_.tokens * config_.intermediateSize;
    T* y = activated_.need(count);
    swiglu(context_, count, kept.gate.data(), kept.up.data(), y);
    return y;
  }

  void layerForward(int64_t index) {
    const LayerOffsets& at = layout_.layer(index);
    LayerActivations<T>& kept = activations(index);
    const int64_t tokens = place_.tokens, hidden = config_.hiddenSize, inner = config_.intermediateSize;
    const size_t streamBytes = size_t(tokens * hidden) * sizeof(float);
    const T* x = normed(input(index), at.inputNorm, kept.inputRstd);
    heads(x, config_.heads, at.q, at.qBias, at.qNorm, kept.rawQ, kept.qRstd, kept.q);
    heads(x, config_.kvHeads, at.k, at.kBias, at.kNorm, kept.rawK, kept.kRstd, kept.k);
    T* v = kept.v.need(tokens * config_.kvDim());
    project(x, hidden, config_.kvDim(), at.v, at.vBias, v, false);
    T* attended = kept.attended.need(tokens * config_.queryDim());
    attention(context_, attentionSizes(), place_.attentionPlan(), kept.q.data(), kept.k.data(), v, attended,
              kept.logSums.need(tokens * config_.heads));
    float* middle = kept.middle.need(tokens * hidden);
    copyOnDevice(context_, middle, input(index), streamBytes);
    project(attended, config_.queryDim(), hidden, at.o, at.oBias, middle, true);

    x = normed(middle, at.postNorm, kept.middleRstd);
    project(x, hidden, inner, at.gate, at.gateBias, kept.gate.need(tokens * inner), false);
    project(x, hidden, inner, at.up, at.upBias, kept.up.need(tokens * inner), false);
    float* next = input(index + 1);
    copyOnDevice(context_, next, middle, streamBytes);
    project(activated(kept), inner, hidden, at.down, at.downBias, next, true);
  }

  /** `stream_` is the gradient of the layer's output and becomes that of its input. */
  void layerBackward(int64_t index) {
    const LayerOffsets& at = layout_.layer(index);
    LayerActivations<T>& kept = activations(index);
    const int64_t tokens = place_.tokens, hidden = config_.hiddenSize, inner = config_.intermediateSize;
    float* stream = stream_.data();
    float* dNormed = dNormed_.need(tokens * hidden);
    const T* active = activated(kept);
    T* dActive = dActivated_.need(tokens * inner);
    projectBackward(active, inner, hidden, at.down, at.downBias, asOperand(stream, tokens * hidden), dActive, false);
    swigluBackward(context_, tokens * inner, kept.gate.data(), kept.up.data(), dActive);
    const T* x = normed(kept.middle.data(), at.postNorm, kept.middleRstd);
    projectBackward(x, hidden, inner, at.gate, at.gateBias, kept.gate.data(), dNormed, false);
    projectBackward(x, hidden, inner, at.up, at.upBias, kept.up.data(), dNormed, true);
    rmsNormBackward(context_, tokens, hidden, kept.middle.data(), weight(at.postNorm), kept.middleRstd.data(), dNormed,
                    stream, true, columnScratch_, gradient(at.postNorm));

    T* dAttended = dAttended_.need(tokens * config_.queryDim());
    projectBackward(kept.attended.data(), config_.queryDim(), hidden, at.o, at.oBias, asOperand(stream, tokens * hidden),
                    dAttended, false);
    T* dq = dq_.need(tokens * config_.queryDim());
    T* dk = dk_.need(tokens * config_.kvDim());
    T* dv = dv_.need(tokens * config_.kvDim());
    attentionBackward(context_, attentionSizes(), place_.attentionPlan(), kept.q.data(), kept.k.data(), kept.v.data(),
                      kept.attended.data(), kept.logSums.data(), dAttended, pulls_, dq, dk, dv);
    x = normed(input(index), at.inputNorm, kept.inputRstd);
    headsBackward(x, config_.heads, at.q, at.qBias, at.qNorm, kept.rawQ, kept.qRstd, dq, dNormed, false);
    headsBackward(x, config_.kvHeads, at.k, at.kBias, at.kNorm, kept.rawK, kept.kRstd, dk, dNormed, true);
    projectBackward(x, hidden, config_.kvDim(), at.v, at.vBias, dv, dNormed, true);
    rmsNormBackward(context_, tokens, hidden, input(index), weight(at.inputNorm), kept.inputRstd.data(), dNormed, stream,
                    true, columnScratch_, gradient(at.inputNorm));
  }

  /** Fills the normed hidden states. */
  void body(bool training, const Tokens& tokens, const Cancel* cancel) {
    validateTokens(config_, tokens);
    kept_ = false;
    training_ = training;
    place_.fill(context_, tokens);
    coverPositions(tokens);
    refreshOperands();
    gather(context_, place_.tokens, config_.hiddenSize, place_.ids.data(), weight(layout_.embedding()), input(0));
    for (int64_t index = 0; index < config_.layers; index++) {
      if (cancel != nullptr) cancel->check();
      layerForward(index);
    }
    rmsNorm(context_, place_.tokens, config_.hiddenSize, input(config_.layers), weight(layout_.finalNorm()),
            config_.rmsNormEps, hidden_.need(place_.tokens * config_.hiddenSize), hiddenRstd_.need(place_.tokens));
  }

  template <class Wanted>
  std::vector<HeadTarget> select(Wanted wanted) const {
    std::vector<HeadTarget> list;
    for (const HeadTarget& target : place_.candidates) {
      if (wanted(target.token)) list.push_back(target);
    }
    return list;
  }

  void run(bool training, const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
           const Cancel* cancel) {
    body(training, tokens, cancel);
    runHead(select([needed](int32_t t) { return needed == nullptr || needed[t] != 0; }), logprobs, entropy);
  }

  void runHead(std::vector<HeadTarget> targets, float* logprobs, float* entropy) {
    targets_ = std::move(targets);
    std::fill_n(logprobs, place_.tokens, 0.0f);
    std::fill_n(entropy, place_.tokens, 0.0f);
    const int64_t count = int64_t(targets_.size());
    if (count == 0) return;
    targetsOnDevice_.fill(context_, targets_);
    head(context_, headSizes(), count, targetsOnDevice_.data(), hidden_.data(), operand(layout_.head()), headScratch_,
         stats_.need(count), logprobs_.need(count), entropy_.need(count));
    const std::vector<float> someLogprobs = logprobs_.toHost(context_, count), someEntropy = entropy_.toHost(context_, count);
    for (int64_t i = 0; i < count; i++) {
      logprobs[targets_[size_t(i)].token] = someLogprobs[size_t(i)];
      entropy[targets_[size_t(i)].token] = someEntropy[size_t(i)];
    }
  }

  /** From `slopes_` of `targets_`, whose statistics are in `stats_`, to the gradients. */
  void backwardFromSlopes(const Cancel* cancel) {
    const int64_t hidden = config_.hiddenSize, count = place_.tokens * hidden;
    float* dHidden = dHidden_.need(count);
    fillZero(context_, dHidden, size_t(count) * sizeof(float));
    if (!targets_.empty()) {
      headBackward(context_, headSizes(), int64_t(targets_.size()), targetsOnDevice_.data(), hidden_.data(),
                   operand(layout_.head()), headScratch_, stats_.data(), slopes_.data(), dHidden,
                   gradient(layout_.head()));
    }
    rmsNormBackward(context_, place_.tokens, hidden, input(config_.layers), weight(layout_.finalNorm()),
                    hiddenRstd_.data(), dHidden, stream_.need(count), false, columnScratch_,
                    gradient(layout_.finalNorm()));
    for (int64_t index = config_.layers - 1; index >= 0; index--) {
      if (cancel != nullptr) cancel->check();
      if (recompute_) layerForward(index);
      layerBackward(index);
    }
    scatterAdd(context_, place_.scatterPlan(), hidden, stream_.data(), gradient(layout_.embedding()));
  }

  const ModelConfig config_;
  const Context context_;
  const Layout layout_;
  const bool recompute_;

  DeviceBuffer<float> weights_, gradients_, first_, second_;
  /** the weights as products take them, in bfloat16 */
  DeviceBuffer<T> operands_;
  bool operandsAreOld_ = true;

  RopeTable<float> ropeTable_;
  int64_t covered_ = 0;
  DeviceBuffer<float> cosines_, sines_;

  Place place_;
  DeviceStreams streams_;
  /** a backward pass comes; without one, and when it computes them again, layers share the memory of activations */
  bool training_ = false;
  /** a forward pass waits for its backward pass */
  bool kept_ = false;
  std::vector<LayerActivations<T>> layers_;
  std::vector<DeviceBuffer<float>> inputs_;
  DeviceBuffer<T> normed_, activated_, hidden_;
  DeviceBuffer<float> hiddenRstd_;

  std::vector<HeadTarget> targets_;
  DeviceBuffer<HeadTarget> targetsOnDevice_;
  DeviceBuffer<HeadStats> stats_;
  HeadScratch<T> headScratch_;
  DeviceBuffer<float> logprobs_, entropy_, slopes_;
  DeviceBuffer<LossSums> losses_, lossSums_;

  // gradients
  DeviceBuffer<float> stream_, dHidden_, dNormed_, columnScratch_, pulls_;
  DeviceBuffer<T> rounded_, dActivated_, dAttended_, dq_, dk_, dv_;
  DeviceBuffer<double> squares_;
};

}  // namespace

std::unique_ptr<DeviceModel> makeModel(const ModelConfig& config, const Context& context,
                                       const DeviceModelOptions& options) {
  if (options.bfloat16) return std::make_unique<TypedModel<bf16>>(config, context, options);
  return std::make_unique<TypedModel<float>>(config, context, options);
}

}  // namespace primerl::cuda
