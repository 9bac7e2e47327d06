// Small models of every family, and random batches for them.
#pragma once

#include <algorithm>

#include "expect.h"
#include "primerl/batch.h"
#include "primerl/layout.h"

namespace models {

using primerl::ModelConfig;

inline ModelConfig base() {
  ModelConfig config;
  config.hiddenSize = 40;
  config.intermediateSize = 56;
  config.layers = 2;
  config.heads = 4;
  config.kvHeads = 1;
  config.headDim = 10;
  config.vocabSize = 53;
  config.maxPositionEmbeddings = 512;
  config.ropeTheta = 1000;
  return config;
}

struct Named {
  const char* name;
  ModelConfig config;
};

inline std::vector<Named> families() {
  ModelConfig llama = base(), qwen2 = base(), qwen3 = base(), all = base();
  llama.ropeScaling = {true, 8, 1, 4, 64};
  qwen2.qkvBias = true;
  qwen2.kvHeads = 4;
  qwen2.headDim = 16;
  qwen3.qkNorm = true;
  qwen3.tieWordEmbeddings = true;
  qwen3.kvHeads = 2;
  all.qkNorm = all.qkvBias = all.outputBias = all.mlpBias = true;
  all.hiddenSize = 37;
  all.heads = 3;
  all.layers = 1;
  return {{"llama", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}, {"every part", all}};
}

/** Random weights; norms around 1. */
template <class T>
std::vector<T> weights(const primerl::Layout& layout, unsigned seed) {
  check::Random random(seed);
  std::vector<T> arena(size_t(layout.total()));
  for (const primerl::TensorSpec& tensor : layout.tensors()) {
    const bool norm = tensor.kind == primerl::TensorKind::norm;
    const double scale = tensor.kind == primerl::TensorKind::matrix ? 1.2 / std::sqrt(double(tensor.shape[1])) : 0.2;
    for (int64_t i = 0; i < tensor.count; i++) {
      // through float, so that models of float and double have the same weights
      arena[size_t(tensor.offset + i)] = T(float((norm ? 1 : 0) + scale * random.normal()));
    }
  }
  return arena;
}

/** A batch with all streams; it owns them. */
struct Sample {
  std::vector<int32_t> ids, lengths;
  std::vector<float> temperatures, logprobs, advantages, reference, rl, ce, refKl;
  std::vector<uint8_t> mask;

  Sample() = default;

  Sample(const ModelConfig& config, std::vector<int32_t> sequenceLengths, unsigned seed)
      : lengths(std::move(sequenceLengths)) {
    check::Random random(seed);
    int64_t count = 0;
    for (const int32_t length : lengths) count += length;
    for (int64_t i = 0; i < count; i++) {
      ids.push_back(random.below(int(config.vocabSize)));
      temperatures.push_back(i % 5 == 0 ? 0.7f : 1.0f);
      logprobs.push_back(float(-4 - random.uniform()));
      advantages.push_back(float(random.normal()));
      reference.push_back(float(-4 - random.uniform()));
      mask.push_back(random.uniform() < 0.6);
      rl.push_back(random.uniform() < 0.2 ? 0.0f : 1.0f);
      ce.push_back(random.uniform() < 0.7 ? 0.0f : 0.5f);
      refKl.push_back(random.uniform() < 0.7 ? 0.0f : 0.8f);
    }
  }

  primerl::Batch batch() const {
    primerl::Batch view;
    view.tokens = int64_t(ids.size());
    view.tokenIds = ids.data();
    view.sequences = int64_t(lengths.size());
    view.sequenceLengths = lengths.data();
    view.temperatures = temperatures.data();
    view.mask = mask.data();
    view.logprobs = logprobs.data();
    view.advantages = advantages.data();
    view.referenceLogprobs = reference.data();
    view.rlWeights = rl.data();
    view.ceWeights = ce.data();
    view.refKlWeights = refKl.data();
    return view;
  }

  /** Sequences [from, to) as a batch of their own. */
  Sample part(size_t from, size_t to) const {
    size_t begin = 0;
    for (size_t s = 0; s < from; s++) begin += size_t(lengths[s]);
    size_t end = begin;
    for (size_t s = from; s < to; s++) end += size_t(lengths[s]);
    Sample some;
    const auto cut = [&](const auto& all, auto& out) {
      out.assign(all.begin() + long(begin), all.begin() + long(end));
    };
    cut(ids, some.ids);
    cut(temperatures, some.temperatures);
    cut(logprobs, some.logprobs);
    cut(advantages, some.advantages);
    cut(reference, some.reference);
    cut(mask, some.mask);
    cut(rl, some.rl);
    cut(ce, some.ce);
    cut(refKl, some.refKl);
    some.lengths.assign(lengths.begin() + long(from), lengths.begin() + long(to));
    return some;
  }
};

/** Each tensor's part of `gradients` is the slope of `loss` along a random direction of its part of `values`. */
template <class Tensors, class Loss>
void holdSlopes(const Tensors& tensors, std::vector<double>& values, const std::vector<double>& gradients,
                check::Random& random, const Loss& loss, const std::string& what) {
  const double h = 1e-6;
  for (const auto& tensor : tensors) {
    const std::vector<double> start = values, direction = random.normals<double>(size_t(tensor.count));
    double expected = 0;
    for (size_t i = 0; i < direction.size(); i++) expected += direction[i] * gradients[size_t(tensor.offset) + i];
    const auto at = [&](double step) {
      for (size_t i = 0; i < direction.size(); i++) {
        values[size_t(tensor.offset) + i] = start[size_t(tensor.offset) + i] + step * direction[i];
      }
      return loss();
    };
    const double numeric = (at(h) - at(-h)) / (2 * h);
    // in place: who computes the loss holds a pointer to them
    std::copy(start.begin(), start.end(), values.begin());
    check::below(std::abs(numeric - expected) / (1 + std::abs(expected)), 2e-6, what + " slope by " + tensor.name);
  }
}

}  // namespace models
