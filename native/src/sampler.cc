#include "sampler.h"

#include <algorithm>
#include <cmath>

#include "primerl/error.h"
#include "random.h"

namespace primerl {
namespace {

// Draws of a request are one stream of its seed; 0 is the stream of nothing else.
constexpr uint64_t kSamplingStream = 0x73616d706c65ULL;

}  // namespace

Draw Sampler::draw(const float* logits, int vocabSize, const Sampling& sampling, uint32_t position) {
  int best = 0;
  for (int i = 1; i < vocabSize; ++i)
    if (logits[i] > logits[best]) best = i;
  const float top = logits[best];
  const float scale = sampling.temperature > 0 ? 1.0f / sampling.temperature : 1.0f;
  probabilities_.resize(vocabSize);
  float* p = probabilities_.data();
  double total = 0;
  for (int i = 0; i < vocabSize; ++i) {
    p[i] = std::exp((logits[i] - top) * scale);
    total += p[i];
  }
  if (!std::isfinite(total) || !std::isfinite(top)) {
    throw Error("ERR_NONFINITE",
                "the model's logits are not finite: its weights are broken; lower the learning rate and go on from an "
                "earlier checkpoint");
  }
  const double logTotal = std::log(total);
  const auto result = [&](int32_t id) { return Draw{id, static_cast<float>((logits[id] - top) * scale - logTotal)}; };
  if (sampling.temperature <= 0) return result(best);

  const double u = uniform(sampling.seed, kSamplingStream, position);
  const bool filtered = sampling.topK > 0 || sampling.topP < 1 || sampling.minP > 0;
  if (!filtered) {
    const double target = u * total;
    double sum = 0;
    int32_t last = best;
    for (int i = 0; i < vocabSize; ++i) {
      if (p[i] <= 0) continue;
      sum += p[i];
      last = i;
      if (sum > target) break;
    }
    return result(last);
  }

  kept_.clear();
  for (int i = 0; i < vocabSize; ++i)
    if (p[i] > 0 && p[i] >= sampling.minP) kept_.push_back(i);
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
    if (sum > target) return result(kept_[i]);
  }
  return result(kept_[count - 1]);
}

}  // namespace primerl
