#include "primerl/adamw.h"

#include "expect.h"

using namespace primerl;

namespace {

template <class T>
void closedForm(Isa isa, double limit) {
  Pool pool(3);
  const Compute compute{pool, isa};
  check::Random random(4);
  const size_t n = 70001;
  std::vector<T> weights = random.normals<T>(n), first(n, T(0)), second(n, T(0));
  std::vector<double> w(weights.begin(), weights.end()), m(n, 0), v(n, 0);
  AdamW options;
  options.learningRate = 0.01;
  options.beta1 = 0.9;
  options.beta2 = 0.95;
  options.weightDecay = 0.1;
  options.maxGradNorm = 50;
  int64_t steps = 0;
  for (int step = 1; step <= 4; step++) {
    const std::vector<T> gradient = random.normals<T>(n, step == 2 ? 1e-3 : 1);
    double norm = 0;
    for (const T g : gradient) norm += double(g) * double(g);
    norm = std::sqrt(norm);
    const double clip = norm > 50 ? 50 / norm : 1;
    for (size_t i = 0; i < n; i++) {
      const double g = clip * double(gradient[i]);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      w[i] -= 0.01 * (m[i] / (1 - std::pow(0.9, step)) / (std::sqrt(v[i] / (1 - std::pow(0.95, step))) + 1e-8) +
                      0.1 * w[i]);
    }
    const AdamWReport report =
        adamwStep(compute, options, int64_t(n), weights.data(), gradient.data(), first.data(), second.data(), steps);
    check::below(std::abs(report.gradNorm - norm) / norm, 1e-12, "norm");
    check::that(report.applied && steps == step, "the step counts");
  }
  check::below(check::relative(weights, w), limit, "weights");
  check::below(check::relative(first, m), limit, "first moments");
  check::below(check::relative(second, v), limit, "second moments");
}

void notFinite(float bad) {
  Pool pool(2);
  const Compute compute{pool, detectIsa()};
  check::Random random(5);
  std::vector<float> weights = random.normals<float>(1000), gradient = random.normals<float>(1000);
  std::vector<float> first = random.normals<float>(1000), second(1000, 0.5f);
  gradient[613] = bad;
  const std::vector<float> oldWeights = weights, oldFirst = first, oldSecond = second;
  int64_t steps = 6;
  const AdamWReport report =
      adamwStep(compute, {}, 1000, weights.data(), gradient.data(), first.data(), second.data(), steps);
  check::that(!report.applied && !std::isfinite(report.gradNorm), "a gradient that is not finite is told");
  check::that(steps == 6 && check::sameBits(weights, oldWeights) && check::sameBits(first, oldFirst) &&
                  check::sameBits(second, oldSecond),
              "and changes nothing");
}

void stepSizeNotFinite(double learningRate, double weightDecay) {
  Pool pool(1);
  check::Random random(7);
  std::vector<float> weights = random.normals<float>(100), gradient = random.normals<float>(100);
  std::vector<float> first(100, 0.0f), second(100, 0.0f);
  const std::vector<float> oldWeights = weights, oldFirst = first;
  int64_t steps = 0;
  AdamW options;
  options.learningRate = learningRate;
  options.weightDecay = weightDecay;
  const AdamWReport report = adamwStep({pool, detectIsa()}, options, 100, weights.data(), gradient.data(), first.data(),
                                       second.data(), steps);
  check::that(!report.applied && std::isfinite(report.gradNorm) && steps == 0, "a step that float cannot hold is told");
  check::that(check::sameBits(weights, oldWeights) && check::sameBits(first, oldFirst), "and changes nothing");
}

void threadsDoNotMatter(Isa isa) {
  check::Random random(6);
  const size_t n = 200003;
  const std::vector<float> start = random.normals<float>(n), gradient = random.normals<float>(n);
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 3}) {
    Pool pool(threads);
    std::vector<float> weights = start, first(n, 0.0f), second(n, 0.0f);
    int64_t steps = 0;
    AdamW options;
    options.maxGradNorm = 1;
    adamwStep({pool, isa}, options, int64_t(n), weights.data(), gradient.data(), first.data(), second.data(), steps);
    results.push_back(weights);
  }
  check::that(check::sameBits(results[0], results[1]), "threads do not change a bit");
}

}  // namespace

int main() {
  closedForm<double>(Isa::scalar, 1e-13);
  for (const Isa isa : check::isas()) {
    closedForm<float>(isa, 1e-6);
    threadsDoNotMatter(isa);
  }
  notFinite(NAN);
  notFinite(INFINITY);
  stepSizeNotFinite(1e300, 0);
  stepSizeNotFinite(1e30, 1e30);
  return check::close("adamw");
}
