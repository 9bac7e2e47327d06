// Rotary positions in the form of two halves: element i pairs with element i + headDim / 2.
#include <cmath>

#include "primerl/ops.h"
#include "ranges.h"

namespace primerl {

namespace {

constexpr double tau = 6.283185307179586476925286766559;

/** Llama 3: long wavelengths are stretched by `factor`, short ones stay, those between are blended. */
double scaled(const RopeScaling& scaling, double frequency) {
  if (!scaling.enabled) return frequency;
  const double wavelength = tau / frequency;
  const double original = static_cast<double>(scaling.originalMaxPositionEmbeddings);
  if (wavelength < original / scaling.highFreqFactor) return frequency;
  if (wavelength > original / scaling.lowFreqFactor) return frequency / scaling.factor;
  const double blend =
      (original / wavelength - scaling.lowFreqFactor) / (scaling.highFreqFactor - scaling.lowFreqFactor);
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

}  // namespace

template <class T>
RopeTable<T>::RopeTable(const ModelConfig& config) : half_(config.headDim / 2) {
  for (int64_t i = 0; i < half_; i++) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.headDim);
    frequencies_.push_back(scaled(config.ropeScaling, std::pow(config.ropeTheta, -exponent)));
  }
}

template <class T>
void RopeTable<T>::cover(int64_t positions) {
  if (positions <= covered_) return;
  const int64_t target = std::max(positions, 2 * covered_);
  cosines_.reserve(static_cast<size_t>(target * half_));
  sines_.reserve(static_cast<size_t>(target * half_));
  for (; covered_ < target; covered_++) {
    for (const double frequency : frequencies_) {
      const double angle = static_cast<double>(covered_) * frequency;
      cosines_.push_back(T(std::cos(angle)));
      sines_.push_back(T(std::sin(angle)));
    }
  }
}

template <class T>
void rope(const Compute& compute, int64_t count, int64_t heads, const int32_t* positions, const RopeTable<T>& table,
          T* x, bool inverse) {
  const int64_t half = table.half(), width = heads * 2 * half;
  const T sign = inverse ? T(-1) : T(1);
  forRows(compute, count, width, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const T* cosine = table.cosines(positions[t]);
      const T* sine = table.sines(positions[t]);
      for (int64_t h = 0; h < heads; h++) {
        T* __restrict low = x + t * width + h * 2 * half;
        T* __restrict high = low + half;
        for (int64_t i = 0; i < half; i++) {
          const T a = low[i], b = high[i], s = sign * sine[i];
          low[i] = a * cosine[i] - b * s;
          high[i] = b * cosine[i] + a * s;
        }
      }
    }
  });
}

template class RopeTable<float>;
template class RopeTable<double>;
template void rope<float>(const Compute&, int64_t, int64_t, const int32_t*, const RopeTable<float>&, float*, bool);
template void rope<double>(const Compute&, int64_t, int64_t, const int32_t*, const RopeTable<double>&, double*, bool);

}  // namespace primerl
