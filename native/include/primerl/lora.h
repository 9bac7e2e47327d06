// Low-rank adapters (arXiv 2106.09685, section 4.1): y = W·x + scale · B·(A·dropout(x)), where W stays as it is. An adapter
// is a set of parameters of its own on a model that knows nothing of it; A and B are float32, as all parameters are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "primerl/compute.h"
#include "primerl/config.h"
#include "primerl/layout.h"

namespace primerl {

/** The matrices of a layer that an adapter can change. */
enum class Projection { q, k, v, o, gate, up, down };
constexpr size_t projectionCount = 7;

struct LoraOptions {
  int64_t rank = 16;
  /** alpha / rank, or alpha / sqrt(rank) with rank stabilisation (arXiv 2312.03732) */
  double scale = 2;
  /** share of inputs of A that a training pass leaves out; the others grow by 1 / (1 - dropout) */
  double dropout = 0;
  /** of A's first values and of the masks of dropout */
  uint64_t seed = 0;
  /** which matrices, as `model.layers.N.self_attn.q_proj`; in any order */
  std::vector<std::string> modules;
};

/** Tensors `base_model.model.MODULE.lora_A.weight` [rank, in] and `….lora_B.weight` [out, rank], in the order of the network. */
class LoraLayout : public TensorTable {
 public:
  /** Throws ERR_CONFIG for a module that the model does not have or that no adapter changes, and for sizes that cannot be. */
  LoraLayout(const ModelConfig& config, const LoraOptions& options);

  /** Offsets into the arena; `absent` where the matrix has no adapter. */
  struct Pair {
    int64_t a = absent;
    int64_t b = absent;
  };
  const Pair& pair(int64_t layer, Projection projection) const {
    return layers_[static_cast<size_t>(layer)][static_cast<size_t>(projection)];
  }
  const LoraOptions& options() const { return options_; }

 private:
  LoraOptions options_;
  std::vector<std::array<Pair, projectionCount>> layers_;
};

/** Columns and rows of a matrix of the model. */
struct ProjectionShape {
  int64_t in;
  int64_t out;
};
ProjectionShape shapeOf(const ModelConfig& config, Projection projection);

/** One adapter in one pass; without `layout` there is none, and the model's own parameters get the gradients. */
template <class T>
struct LoraPass {
  const LoraLayout* layout = nullptr;
  const T* weights = nullptr;
  /** added to in a backward pass */
  T* gradients = nullptr;
  /** only training passes have dropout; the masks are a function of this and of a number's place */
  bool drops = false;
  uint64_t maskSeed = 0;
};

}  // namespace primerl
