// All parameters lie in one arena in the order of the network, without gaps, named as in a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "primerl/config.h"

namespace primerl {

enum class TensorKind { matrix, norm, bias };

/** `offset` and `count` are in elements. A matrix is [out, in], row-major. */
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t count = 0;
  TensorKind kind = TensorKind::matrix;
};

/** Offset of a tensor that the configuration does not have. */
constexpr int64_t absent = -1;

/** Offsets into the arena, in elements; `absent` where there is no such tensor. */
struct LayerOffsets {
  int64_t inputNorm = absent;
  int64_t q = absent, qBias = absent;
  int64_t k = absent, kBias = absent;
  int64_t v = absent, vBias = absent;
  int64_t qNorm = absent, kNorm = absent;
  int64_t o = absent, oBias = absent;
  int64_t postNorm = absent;
  int64_t gate = absent, gateBias = absent;
  int64_t up = absent, upBias = absent;
  int64_t down = absent, downBias = absent;
};

/** Named tensors in one arena, end to end. */
class TensorTable {
 public:
  const std::vector<TensorSpec>& tensors() const { return tensors_; }

  /** Elements of the arena. */
  int64_t total() const { return total_; }

  /** Throws ERR_TENSOR when there is no such tensor. */
  const TensorSpec& at(const std::string& name) const;

 protected:
  int64_t add(const std::string& name, std::vector<int64_t> shape, TensorKind kind);

 private:
  std::vector<TensorSpec> tensors_;
  std::unordered_map<std::string, size_t> byName_;
  int64_t total_ = 0;
};

/** The tensors of a model. */
class Layout : public TensorTable {
 public:
  explicit Layout(const ModelConfig& config);

  int64_t embedding() const { return embedding_; }
  const LayerOffsets& layer(int64_t index) const { return layers_[static_cast<size_t>(index)]; }
  int64_t finalNorm() const { return finalNorm_; }

  /** The head's matrix [vocabSize, hiddenSize]; the embedding's offset when both are tied. */
  int64_t head() const { return head_; }

 private:
  std::vector<LayerOffsets> layers_;
  int64_t embedding_ = absent;
  int64_t finalNorm_ = absent;
  int64_t head_ = absent;
};

}  // namespace primerl
