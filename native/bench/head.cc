// The fused head alone, forward and backward: head TOKENS HIDDEN VOCABULARY THREADS PRECISION SHARE, where SHARE of the
// tokens are trainable. `base` is the memory with inputs and gradients, before the first round.
#include <vector>

#include "measure.h"
#include "primerl/ops.h"

using namespace primerl;

int main(int count, char** args) {
  if (count != 7) {
    std::fprintf(stderr, "head TOKENS HIDDEN VOCABULARY THREADS PRECISION SHARE\n");
    return 2;
  }
  const int64_t tokens = std::atoll(args[1]), width = std::atoll(args[2]), vocab = std::atoll(args[3]);
  Pool pool(std::atoi(args[4]));
  const Compute compute{pool, detectIsa(), nullptr, measure::precisionOf(args[5])};
  const int64_t trained = static_cast<int64_t>(double(tokens) * std::atof(args[6]) + 0.5);

  // of about the spread that a trained model has
  const std::vector<float> hidden = measure::numbers(tokens * width, 1.7f), w = measure::numbers(vocab * width, 0.035f);
  std::vector<float> dHidden(hidden.size(), 0.0f), dw(w.size(), 0.0f);
  std::vector<Target> targets;
  for (int64_t i = 0; i < trained; i++) {
    const int64_t row = i * tokens / trained;
    targets.push_back({row, static_cast<int32_t>(row * 7919 % vocab), 1.0f, row});
  }
  HeadScratch<float> scratch;
  const auto once = [&] {
    std::fill(dHidden.begin(), dHidden.end(), 0.0f);
    head<float>(compute, {width, vocab}, targets, hidden.data(), w.data(),
                [&](int64_t, HeadResult) { return -1.0 / double(tokens); }, dHidden.data(), dw.data(), scratch);
  };
  const int64_t base = measure::peak();
  once();
  std::printf("{\"isa\":\"%s\",\"base\":%lld}\n", isaName(compute.isa), static_cast<long long>(base));
  std::fflush(stdout);
  while (measure::asked()) measure::tell(measure::timed(once));
}
