#include "primerl/model.h"

#include <algorithm>
#include <string>

#include "layer.h"
#include "primerl/phases.h"

namespace primerl {

template <class T>
struct Model<T>::State {
  State(const ModelConfig& modelConfig, ModelOptions modelOptions)
      : config(modelConfig), options(modelOptions), layout(modelConfig), rope(modelConfig) {}

  const ModelConfig config;
  const ModelOptions options;
  const Layout layout;
  RopeTable<T> rope;
  /** of the forward that waits for its backward */
  Workspace<T> training;
  Workspace<T> scoring;

  LayerContext<T> layer(const Compute& compute, const T* weights, const LoraPass<T>& lora, Workspace<T>& work,
                        int64_t index) {
    return {compute, config, layout.layer(index), rope, weights, work, work.layer(index),
            work.input(index, config.hiddenSize), index + 1 == config.layers ? &work.wanted : nullptr, index, lora};
  }

  /** Fills `work` up to the normed hidden states that tokens with `needed[t] != 0` (null: all) are predicted from. */
  void body(const Compute& compute, const T* weights, const LoraPass<T>& lora, const Tokens& tokens,
            const uint8_t* needed, Workspace<T>& work, Keep keep) {
    validateTokens(config, tokens);
    const int64_t hidden = config.hiddenSize;
    work.begin(config, tokens, keep);
    work.wanted.clear();
    work.wantedPositions.clear();
    for (int64_t t = 1; t < work.tokens; t++) {
      const int32_t position = work.place().positions[static_cast<size_t>(t)];
      if (position == 0 || (needed != nullptr && needed[t] == 0)) continue;
      work.wanted.push_back(t - 1);
      work.wantedPositions.push_back(position - 1);
    }
    const int64_t rows = work.wantedRows();
    for (int64_t s = 0; s < tokens.sequences; s++) rope.cover(tokens.sequenceLengths[s]);
    embedding(compute, work.tokens, hidden, work.ids.data(), weights + layout.embedding(), work.input(0, hidden));
    for (int64_t index = 0; index < config.layers; index++) {
      compute.check();
      layerForward(layer(compute, weights, lora, work, index), work.input(index + 1, hidden));
    }
    rmsNorm(compute, rows, hidden, work.input(config.layers, hidden), weights + layout.finalNorm(), config.rmsNormEps,
            work.hidden.need(rows * hidden), work.hiddenRstd.need(rows));
  }

  /** The predictions of a forward for which `asked` holds; their rows are those of the hidden states. */
  template <class Asked>
  std::vector<Target> targets(const Workspace<T>& work, Asked asked) const {
    std::vector<Target> list;
    for (int64_t row = 0; row < work.wantedRows(); row++) {
      const int64_t t = work.wanted[static_cast<size_t>(row)] + 1;
      const size_t i = static_cast<size_t>(t);
      if (asked(t)) list.push_back({row, work.ids[i], work.temperatures[i], t});
    }
    return list;
  }

  std::vector<Target> targets(const Workspace<T>& work) const {
    return targets(work, [](int64_t) { return true; });
  }

  void runHead(const Compute& compute, const T* weights, Workspace<T>& work, const std::vector<Target>& list,
               const std::function<double(int64_t, HeadResult)>& use, T* dHidden, T* gradients) {
    PhaseTimer timer(compute, Phase::head, dHidden != nullptr);
    head<T>(compute.forHead(), {config.hiddenSize, config.vocabSize}, list, work.hidden.data(), weights + layout.head(), use,
            dHidden, gradients == nullptr ? nullptr : gradients + layout.head(), work.head);
  }

  void scores(const Compute& compute, const T* weights, Workspace<T>& work, T* logprobs, T* entropy) {
    const std::vector<Target> list = targets(work);
    std::fill_n(logprobs, work.tokens, T(0));
    std::fill_n(entropy, work.tokens, T(0));
    const auto keep = [&](int64_t i, HeadResult result) {
      const int64_t token = list[static_cast<size_t>(i)].token;
      logprobs[token] = T(result.logprob);
      entropy[token] = T(result.entropy);
      return 0.0;
    };
    runHead(compute, weights, work, list, keep, nullptr, nullptr);
  }

  /** Head forward and backward in one sweep, then the layers. Uses the kept activations up. */
  void backward(const Compute& compute, const T* weights, const LoraPass<T>& lora, const std::vector<Target>& list,
                const std::function<double(int64_t, HeadResult)>& use, T* gradients) {
    Workspace<T>& work = training;
    if (lora.layout != nullptr) gradients = nullptr;
    work.filled = false;
    const int64_t hidden = config.hiddenSize, rows = work.wantedRows();
    T* stream = work.stream.need(work.tokens * hidden);
    std::fill_n(stream, rows * hidden, T(0));
    runHead(compute, weights, work, list, use, stream, gradients);
    rmsNormBackward(compute, rows, hidden, work.input(config.layers, hidden), weights + layout.finalNorm(),
                    work.hiddenRstd.data(), stream, stream, false,
                    gradients == nullptr ? nullptr : gradients + layout.finalNorm());
    for (int64_t index = config.layers - 1; index >= 0; index--) {
      compute.check();
      const LayerContext<T> context = layer(compute, weights, lora, work, index);
      if (work.keep == Keep::inputs) layerForward(context, work.input(index + 1, hidden));
      layerBackward(context, stream, gradients);
    }
    if (gradients == nullptr) return;
    embeddingBackward(compute, work.tokens, hidden, work.ids.data(), stream, gradients + layout.embedding());
  }

  Keep keepForTraining() const { return options.recompute ? Keep::inputs : Keep::all; }
};

template <class T>
Model<T>::Model(const ModelConfig& config, ModelOptions options) : state_(std::make_unique<State>(config, options)) {}

template <class T>
Model<T>::~Model() = default;

template <class T>
const ModelConfig& Model<T>::config() const {
  return state_->config;
}

template <class T>
const Layout& Model<T>::layout() const {
  return state_->layout;
}

template <class T>
void Model<T>::score(const Compute& compute, const T* weights, const Tokens& tokens, T* logprobs, T* entropy,
                     const LoraPass<T>& lora) {
  state_->body(compute, weights, lora, tokens, nullptr, state_->scoring, Keep::nothing);
  state_->scores(compute, weights, state_->scoring, logprobs, entropy);
}

template <class T>
void Model<T>::forward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed,
                       T* logprobs, T* entropy, const LoraPass<T>& lora) {
  state_->body(compute, weights, lora, tokens, needed, state_->training, state_->keepForTraining());
  state_->scores(compute, weights, state_->training, logprobs, entropy);
  state_->training.filled = true;
}

template <class T>
void Model<T>::backward(const Compute& compute, const T* weights, const T* gradient, T* gradients,
                        const LoraPass<T>& lora) {
  if (!state_->training.filled) {
    throw Error("ERR_STATE", "There is no forward pass to go back through. Call forward before each backward.");
  }
  Workspace<T>& work = state_->training;
  std::vector<uint8_t> predicted(static_cast<size_t>(work.tokens), 0);
  for (const int64_t row : work.wanted) predicted[static_cast<size_t>(row) + 1] = 1;
  for (int64_t t = 0; t < work.tokens; t++) {
    const size_t i = static_cast<size_t>(t);
    if (gradient[t] == T(0) || predicted[i] != 0 || work.place().positions[i] == 0) continue;
    throw Error("ERR_BATCH", "Token " + std::to_string(t) +
                                 " has a gradient, but the forward pass made no log-probability of it. Ask for it.");
  }
  const std::vector<Target> list = state_->targets(work, [&](int64_t t) { return gradient[t] != T(0); });
  const auto use = [&](int64_t i, HeadResult) { return double(gradient[list[static_cast<size_t>(i)].token]); };
  state_->backward(compute, weights, lora, list, use, gradients);
}

template <class T>
void Model<T>::forwardBackward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed,
                               const TokenGradient& tokenGradient, T* gradients, T* logprobs, T* entropy,
                               const LoraPass<T>& lora) {
  state_->body(compute, weights, lora, tokens, needed, state_->training, state_->keepForTraining());
  std::fill_n(logprobs, tokens.tokens, T(0));
  std::fill_n(entropy, tokens.tokens, T(0));
  const std::vector<Target> list = state_->targets(state_->training);
  const auto use = [&](int64_t i, HeadResult result) {
    const int64_t token = list[static_cast<size_t>(i)].token;
    logprobs[token] = T(result.logprob);
    entropy[token] = T(result.entropy);
    // A loss sees the log-probability that is reported, so that its formula outside of the kernel gives the same gradient.
    return tokenGradient(token, double(logprobs[token]));
  };
  state_->backward(compute, weights, lora, list, use, gradients);
}

template <class T>
int64_t Model<T>::keptBytes() const {
  return state_->training.keptBytes();
}

template <class T>
int64_t Model<T>::scratchBytes() const {
  return state_->training.scratchBytes();
}

template <class T>
void Model<T>::forget() {
  state_->training = Workspace<T>();
  state_->scoring = Workspace<T>();
}

template class Model<float>;
template class Model<double>;

}  // namespace primerl
