#include "primerl/plan.h"

#include <algorithm>

#include "cpu/attention_block.h"
#include "cpu/product.h"
#include "primerl/layout.h"

namespace primerl {

namespace {

constexpr int64_t floatBytes = static_cast<int64_t>(sizeof(float));

/** For sizes that no machine has, the most that a number of bytes may be. */
int64_t timesTokens(int64_t tokens, int64_t numbers) {
  constexpr double most = 1e18;
  const double bytes = double(tokens) * double(numbers) * double(floatBytes);
  return bytes < most ? tokens * numbers * floatBytes : static_cast<int64_t>(most);
}

/** Bytes of an operand [K, N] that is packed for many products. */
int64_t packedBytes(const ProductKernel<float>& kernel, int64_t K, int64_t N) {
  const int64_t panels = (N + kernel.tileColumns - 1) / kernel.tileColumns, whole = K / kernel.depth;
  const int64_t rest = K - whole * kernel.depth;
  return panels * (whole * kernel.rightBytes(kernel.depth) + (rest > 0 ? kernel.rightBytes(rest) : 0));
}

/** Numbers that a layer keeps of one token, without its input. */
int64_t keptPerToken(const ModelConfig& config) {
  const int64_t queries = config.queryDim(), keys = config.kvDim();
  const int64_t norms = config.qkNorm ? queries + keys + config.heads + config.kvHeads : 0;
  return 2 * queries + 2 * keys + config.hiddenSize + 2 * config.intermediateSize + 2 + norms;
}

/** The weights of one layer as operands. */
int64_t operandBytes(const ModelConfig& config, const ProductKernel<float>& kernel) {
  const int64_t hidden = config.hiddenSize, inner = config.intermediateSize, queries = config.queryDim();
  const auto bytes = [&](int64_t K, int64_t N) { return packedBytes(kernel, K, N); };
  const auto either = [&](int64_t a, int64_t b) { return std::max(bytes(a, b), bytes(b, a)); };
  const int64_t keys = config.kvDim();
  return std::max(either(hidden, queries), either(inner, hidden)) +
         2 * std::max(either(hidden, inner), either(hidden, keys)) + bytes(inner, hidden);
}

}  // namespace

MemoryPlan memoryPlan(const ModelConfig& config, const PlanOptions& options) {
  const Layout layout(config);
  Pool pool(1);
  const Compute compute{pool, options.isa, nullptr, options.precision, options.headPrecision};
  const ProductKernel<float>& kernel = productKernel<float>(compute);
  const int64_t n = options.tokens, hidden = config.hiddenSize, inner = config.intermediateSize;
  const int64_t queries = config.queryDim(), keys = config.kvDim();
  MemoryPlan plan;
  plan.weights = layout.total() * floatBytes;
  if (options.trainable) {
    plan.gradients = plan.weights;
    plan.optimizer = 2 * plan.weights;
  }
  plan.adapters = options.adapterBytes;
  const bool trains = options.trainable || options.adapterTrains;
  const int64_t inputs = trains ? config.layers + 1 : 2;
  const int64_t keptLayers = trains && !options.recompute ? config.layers : 1;
  plan.activations = timesTokens(n, inputs * hidden + keptLayers * keptPerToken(config));

  const int64_t forward = 3 * hidden + 1;
  const int64_t backward = trains ? 2 * hidden + inner + 2 * queries + 2 * keys : 0;
  // the gemm's own panels and one block of rows, for each thread
  const int64_t panels = kernel.leftBytes(kernel.tileRows, kernel.depth) * 40 + kernel.rightBytes(kernel.depth) * 64;
  const int64_t perThread = panels + 224 * (hidden + inner) * floatBytes;
  const int64_t low = options.adapterTrains ? 2 * options.rank + (options.drops ? std::max({inner, hidden, queries}) : 0) : 0;
  const int64_t widest = options.rank + (options.drops ? std::max({inner, hidden, queries}) : 0);
  const int64_t block = options.rank > 0 ? 224 * widest * floatBytes : 0;
  plan.workspace = timesTokens(n, forward + backward + low) + operandBytes(config, kernel) +
                   options.threads * (perThread + block) +
                   headScratchBytes<float>(compute.forHead(), hidden, config.vocabSize, n, trains);

  plan.decoder = config.vocabSize * hidden * floatBytes +
                 packedBytes(productKernel<float>(compute.forHead()), hidden, config.vocabSize) +
                 config.layers * (packedBytes(kernel, hidden, queries) + 2 * packedBytes(kernel, hidden, keys) +
                                  packedBytes(kernel, queries, hidden) + 2 * packedBytes(kernel, hidden, inner) +
                                  packedBytes(kernel, inner, hidden));
  const Kernels<float>& kernels = primerl::kernels<float>(options.isa);
  plan.cachePerToken =
      config.layers * config.kvHeads * (config.headDim + paddedWidth(kernels, config.headDim)) * floatBytes;
  return plan;
}

}  // namespace primerl
