#include "sampler.h"

#include <algorithm>
#include <cmath>

#include "cpu/kernels.h"
#include "primerl/error.h"
#include "random.h"

namespace primerl {
namespace {

// Probabilities that are added up before it is asked whether the draw lies among them.
constexpr int64_t piece = 256;

}  // namespace

// Unnormalised: the most probable has 1.
struct Sampler::Distribution {
  const Kernels<float>& kernel;
  const float* logits;
  int64_t size;
  float inverseTemperature;
  LogitSums<float> sums;

  void probabilities(int64_t from, int64_t count, float* into) const {
    std::copy_n(logits + from, count, into);
    kernel.logitGradient(count, into, inverseTemperature, sums.top, 0, -1);
  }
};

Draw Sampler::draw(Isa isa, const float* logits, int64_t vocabSize, const Sampling& sampling, uint32_t position) {
  const Kernels<float>& kernel = kernels<float>(isa);
  const float inverse = sampling.temperature > 0 ? 1.0f / sampling.temperature : 1.0f;
  const Distribution of{kernel, logits, vocabSize, inverse, kernel.logitSums(vocabSize, logits, inverse)};
  if (!std::isfinite(of.sums.total) || !std::isfinite(of.sums.top)) {
    throw Error("ERR_NONFINITE",
                "the model's logits are not finite: its weights are broken; lower the learning rate and go on from an "
                "earlier checkpoint");
  }
  int32_t id;
  if (sampling.temperature <= 0) {
    id = static_cast<int32_t>(std::find(logits, logits + vocabSize, of.sums.top) - logits);
  } else {
    const double u = uniform(sampling.seed, samplingStream, position);
    const bool filtered = sampling.topK > 0 || sampling.topP < 1 || sampling.minP > 0;
    id = filtered ? fromSome(of, sampling, u) : fromAll(of, u);
  }
  return {id, static_cast<float>((logits[id] - of.sums.top) * inverse - std::log(of.sums.total))};
}

int32_t Sampler::fromAll(const Distribution& of, double u) {
  probabilities_.resize(static_cast<size_t>(piece));
  float* p = probabilities_.data();
  const double target = u * of.sums.total;
  double sum = 0;
  for (int64_t from = 0; from < of.size; from += piece) {
    const int64_t count = std::min(piece, of.size - from);
    of.probabilities(from, count, p);
    double mass = 0;
    for (int64_t i = 0; i < count; ++i) mass += p[i];
    if (sum + mass > target) {
      double within = 0;
      int64_t i = 0;
      for (; i < count - 1; ++i) {
        within += p[i];
        if (sum + within > target) break;
      }
      return static_cast<int32_t>(from + i);
    }
    sum += mass;
  }
  return static_cast<int32_t>(of.size - 1);
}

int32_t Sampler::fromSome(const Distribution& of, const Sampling& sampling, double u) {
  probabilities_.resize(static_cast<size_t>(of.size));
  float* p = probabilities_.data();
  of.probabilities(0, of.size, p);
  kept_.clear();
  for (int64_t i = 0; i < of.size; ++i)
    if (p[i] >= sampling.minP) kept_.push_back(static_cast<int32_t>(i));
  const auto moreProbable = [p](int32_t a, int32_t b) { return p[a] != p[b] ? p[a] > p[b] : a < b; };
  if (sampling.topK > 0 && static_cast<size_t>(sampling.topK) < kept_.size()) {
    std::nth_element(kept_.begin(), kept_.begin() + sampling.topK, kept_.end(), moreProbable);
    kept_.resize(sampling.topK);
  }
  // Sorted in growing pieces: a nucleus is small, and the whole vocabulary need not be put in order to find it.
  double mass = 0;
  for (const int32_t id : kept_) mass += p[id];
  const double wanted = sampling.topP < 1 ? sampling.topP * mass : mass;
  double nucleus = 0;
  size_t count = 0;
  for (size_t sorted = 0; count < kept_.size() && (count == 0 || nucleus < wanted);) {
    if (count == sorted) {
      const size_t next = std::min(kept_.size(), std::max<size_t>(64, sorted * 8));
      std::partial_sort(kept_.begin() + sorted, kept_.begin() + next, kept_.end(), moreProbable);
      sorted = next;
    }
    nucleus += p[kept_[count++]];
  }
  const double target = u * nucleus;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += p[kept_[i]];
    if (sum > target) return kept_[i];
  }
  return kept_[count - 1];
}

}  // namespace primerl
