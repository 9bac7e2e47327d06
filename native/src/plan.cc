#include "primerl/plan.h"

#include <algorithm>

#include "cpu/attention_block.h"
#include "cpu/product.h"
#include "primerl/layout.h"

namespace primerl {

namespace {

constexpr int64_t floatBytes = static_cast<int64_t>(sizeof(float));

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

/** Operands of one layer: weights in the forward pass; weights and packed activations in the backward pass. */
int64_t operandBytes(const ModelConfig& config, const ProductKernel<float>& kernel, const PlanOptions& options) {
  const int64_t hidden = config.hiddenSize, inner = config.intermediateSize, queries = config.queryDim();
  const auto bytes = [&](int64_t K, int64_t N) { return packedBytes(kernel, K, N); };
  const auto either = [&](int64_t a, int64_t b) { return std::max(bytes(a, b), bytes(b, a)); };
  const int64_t keys = config.kvDim();
  int64_t total = std::max(either(hidden, queries), either(inner, hidden)) +
                  2 * std::max(either(hidden, inner), either(hidden, keys)) + bytes(inner, hidden);
  if (options.trainable) {
    total += std::max({bytes(options.tokens, inner), bytes(options.tokens, hidden), bytes(options.tokens, queries)}) +
             bytes(options.tokens, hidden);
  }
  return total;
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
  const int64_t inputs = options.trainable ? config.layers + 1 : 2;
  const int64_t keptLayers = options.trainable && !options.recompute ? config.layers : 1;
  plan.activations = n * (inputs * hidden + keptLayers * keptPerToken(config)) * floatBytes;

  const int64_t forward = 3 * hidden + 1;
  const int64_t backward = options.trainable ? 3 * hidden + inner + 2 * queries + 2 * keys : 0;
  // the gemm's own panels and one block of rows, for each thread
  const int64_t panels = kernel.leftBytes(kernel.tileRows, kernel.depth) * 40 + kernel.rightBytes(kernel.depth) * 64;
  const int64_t perThread = panels + 224 * (hidden + inner) * floatBytes;
  plan.workspace = n * (forward + backward) * floatBytes + operandBytes(config, kernel, options) +
                   options.threads * perThread +
                   headScratchBytes<float>(compute.forHead(), hidden, config.vocabSize, n, options.trainable);

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
