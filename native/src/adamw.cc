#include "primerl/adamw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/kernels.h"

namespace primerl {

namespace {

constexpr int64_t normBlock = 1 << 14;
constexpr int64_t updateGrain = 1 << 15;

template <class T>
double sumOfSquares(int64_t n, const T* x) {
  double lane[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; j++) lane[j] += double(x[i + j]) * double(x[i + j]);
  }
  for (; i < n; i++) lane[0] += double(x[i]) * double(x[i]);
  return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

template <class T>
bool isFiniteIn(const AdamWStep& step) {
  for (const double value : {step.clip, step.eps, step.stepSize, step.secondCorrection, step.decay}) {
    if (!(std::abs(value) <= double(std::numeric_limits<T>::max()))) return false;
  }
  return true;
}

}  // namespace

template <class T>
double globalNorm(const Compute& compute, const T* values, int64_t count) {
  const int64_t blocks = (count + normBlock - 1) / normBlock;
  std::vector<double> sums(static_cast<size_t>(blocks));
  compute.pool.parallelFor(blocks, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; block++) {
      const int64_t from = block * normBlock;
      sums[static_cast<size_t>(block)] = sumOfSquares(std::min(normBlock, count - from), values + from);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

template <class T>
bool adamwNumbers(const AdamW& options, int64_t steps, double gradNorm, AdamWStep& step) {
  if (!std::isfinite(gradNorm)) return false;
  const double t = static_cast<double>(steps + 1);
  const bool clips = options.maxGradNorm > 0 && gradNorm > options.maxGradNorm;
  step.clip = clips ? options.maxGradNorm / gradNorm : 1.0;
  step.beta1 = options.beta1;
  step.beta2 = options.beta2;
  step.eps = options.eps;
  step.stepSize = options.learningRate / (1 - std::pow(options.beta1, t));
  step.secondCorrection = 1 / (1 - std::pow(options.beta2, t));
  step.decay = 1 - options.learningRate * options.weightDecay;
  return isFiniteIn<T>(step);
}

template <class T>
AdamWReport adamwStep(const Compute& compute, const AdamW& options, int64_t count, T* weights, const T* gradients,
                      T* first, T* second, int64_t& steps) {
  compute.check();
  AdamWReport report;
  report.gradNorm = globalNorm(compute, gradients, count);
  AdamWStep step;
  if (!adamwNumbers<T>(options, steps, report.gradNorm, step)) return report;
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  compute.pool.parallelFor(
      count,
      [&](int64_t begin, int64_t end) {
        kernel.adamw(end - begin, step, weights + begin, gradients + begin, first + begin, second + begin);
      },
      updateGrain);
  steps++;
  report.applied = true;
  return report;
}

template bool adamwNumbers<float>(const AdamW&, int64_t, double, AdamWStep&);
template bool adamwNumbers<double>(const AdamW&, int64_t, double, AdamWStep&);
template double globalNorm<float>(const Compute&, const float*, int64_t);
template double globalNorm<double>(const Compute&, const double*, int64_t);
template AdamWReport adamwStep<float>(const Compute&, const AdamW&, int64_t, float*, const float*, float*, float*,
                                      int64_t&);
template AdamWReport adamwStep<double>(const Compute&, const AdamW&, int64_t, double*, const double*, double*, double*,
                                       int64_t&);

}  // namespace primerl
