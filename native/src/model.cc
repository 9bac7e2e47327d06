#include "primerl/model.h"

#include <algorithm>

#include "layer.h"

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

  LayerContext<T> layer(const Compute& compute, const T* weights, Workspace<T>& work, int64_t index) {
    return {compute, config, layout.layer(index), rope, weights, work, work.layer(index),
            work.input(index, config.hiddenSize)};
  }

  /** Fills `work` up to the normed hidden states. */
  void body(const Compute& compute, const T* weights, const Tokens& tokens, Workspace<T>& work, Keep keep) {
    validateTokens(config, tokens);
    const int64_t hidden = config.hiddenSize;
    work.begin(config, tokens, keep);
    for (int64_t s = 0; s < tokens.sequences; s++) rope.cover(tokens.sequenceLengths[s]);
    embedding(compute, work.tokens, hidden, work.ids.data(), weights + layout.embedding(), work.input(0, hidden));
    for (int64_t index = 0; index < config.layers; index++) {
      compute.check();
      layerForward(layer(compute, weights, work, index), work.input(index + 1, hidden));
    }
    rmsNorm(compute, work.tokens, hidden, work.input(config.layers, hidden), weights + layout.finalNorm(),
            config.rmsNormEps, work.hidden.need(work.tokens * hidden), work.hiddenRstd.need(work.tokens));
  }

  /** Tokens for which `wanted` holds, without the first of each sequence. */
  template <class Wanted>
  std::vector<Target> targets(const Workspace<T>& work, Wanted wanted) const {
    std::vector<Target> list;
    for (int64_t t = 0; t < work.tokens; t++) {
      const size_t i = static_cast<size_t>(t);
      if (work.place().positions[i] == 0 || !wanted(t)) continue;
      list.push_back({t - 1, work.ids[i], work.temperatures[i], t});
    }
    return list;
  }

  std::vector<Target> needed(const Workspace<T>& work, const uint8_t* flags) const {
    return targets(work, [flags](int64_t t) { return flags == nullptr || flags[t] != 0; });
  }

  void runHead(const Compute& compute, const T* weights, Workspace<T>& work, const std::vector<Target>& list,
               const std::function<double(int64_t, HeadResult)>& use, T* dHidden, T* gradients) {
    head<T>(compute.forHead(), {config.hiddenSize, config.vocabSize}, list, work.hidden.data(), weights + layout.head(), use,
            dHidden, gradients == nullptr ? nullptr : gradients + layout.head(), work.head);
  }

  void scores(const Compute& compute, const T* weights, Workspace<T>& work, const uint8_t* flags, T* logprobs,
              T* entropy) {
    const std::vector<Target> list = needed(work, flags);
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
  void backward(const Compute& compute, const T* weights, const std::vector<Target>& list,
                const std::function<double(int64_t, HeadResult)>& use, T* gradients) {
    Workspace<T>& work = training;
    work.filled = false;
    const int64_t hidden = config.hiddenSize, count = work.tokens * hidden;
    T* dHidden = work.dHidden.need(count);
    std::fill_n(dHidden, count, T(0));
    runHead(compute, weights, work, list, use, dHidden, gradients);
    T* stream = work.stream.need(count);
    rmsNormBackward(compute, work.tokens, hidden, work.input(config.layers, hidden), weights + layout.finalNorm(),
                    work.hiddenRstd.data(), dHidden, stream, false, gradients + layout.finalNorm());
    for (int64_t index = config.layers - 1; index >= 0; index--) {
      compute.check();
      const LayerContext<T> context = layer(compute, weights, work, index);
      if (work.keep == Keep::inputs) layerForward(context, work.input(index + 1, hidden));
      layerBackward(context, stream, gradients);
    }
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
void Model<T>::score(const Compute& compute, const T* weights, const Tokens& tokens, T* logprobs, T* entropy) {
  state_->body(compute, weights, tokens, state_->scoring, Keep::nothing);
  state_->scores(compute, weights, state_->scoring, nullptr, logprobs, entropy);
}

template <class T>
void Model<T>::forward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed,
                       T* logprobs, T* entropy) {
  state_->body(compute, weights, tokens, state_->training, state_->keepForTraining());
  state_->scores(compute, weights, state_->training, needed, logprobs, entropy);
  state_->training.filled = true;
}

template <class T>
void Model<T>::backward(const Compute& compute, const T* weights, const T* gradient, T* gradients) {
  if (!state_->training.filled) {
    throw Error("ERR_STATE", "There is no forward pass to go back through. Call forward before each backward.");
  }
  const std::vector<Target> list = state_->targets(state_->training, [&](int64_t t) { return gradient[t] != T(0); });
  const auto use = [&](int64_t i, HeadResult) { return double(gradient[list[static_cast<size_t>(i)].token]); };
  state_->backward(compute, weights, list, use, gradients);
}

template <class T>
void Model<T>::forwardBackward(const Compute& compute, const T* weights, const Tokens& tokens, const uint8_t* needed,
                               const TokenGradient& tokenGradient, T* gradients, T* logprobs, T* entropy) {
  state_->body(compute, weights, tokens, state_->training, state_->keepForTraining());
  std::fill_n(logprobs, tokens.tokens, T(0));
  std::fill_n(entropy, tokens.tokens, T(0));
  const std::vector<Target> list = state_->needed(state_->training, needed);
  const auto use = [&](int64_t i, HeadResult result) {
    const int64_t token = list[static_cast<size_t>(i)].token;
    logprobs[token] = T(result.logprob);
    entropy[token] = T(result.entropy);
    // A loss sees the log-probability that is reported, so that its formula outside of the kernel gives the same gradient.
    return tokenGradient(token, double(logprobs[token]));
  };
  state_->backward(compute, weights, list, use, gradients);
}

template <class T>
void Model<T>::forget() {
  state_->training = Workspace<T>();
  state_->scoring = Workspace<T>();
}

template class Model<float>;
template class Model<double>;

}  // namespace primerl
