#include "primerl/layout.h"

#include "primerl/error.h"

namespace primerl {

namespace {

/** More elements than a machine holds, and few enough that no size derived from them overflows. */
constexpr int64_t mostElements = int64_t(1) << 48;

}  // namespace

int64_t TensorTable::add(const std::string& name, std::vector<int64_t> shape, TensorKind kind) {
  TensorSpec spec;
  spec.name = name;
  spec.count = 1;
  for (const int64_t size : shape) {
    if (size > (mostElements - total_) / spec.count) {
      throw Error("ERR_CONFIG", "The model configuration cannot be: with \"" + name +
                                    "\" the model has more parameters than a machine can hold.");
    }
    spec.count *= size;
  }
  spec.shape = std::move(shape);
  spec.offset = total_;
  spec.kind = kind;
  total_ += spec.count;
  byName_.emplace(name, tensors_.size());
  tensors_.push_back(std::move(spec));
  return tensors_.back().offset;
}

Layout::Layout(const ModelConfig& config) {
  config.validate();
  const int64_t hidden = config.hiddenSize, inner = config.intermediateSize;
  const auto matrix = [&](const std::string& name, int64_t out, int64_t in) {
    return add(name + ".weight", {out, in}, TensorKind::matrix);
  };
  const auto norm = [&](const std::string& name, int64_t size) {
    return add(name + ".weight", {size}, TensorKind::norm);
  };
  const auto bias = [&](bool wanted, const std::string& name, int64_t size) {
    return wanted ? add(name + ".bias", {size}, TensorKind::bias) : absent;
  };

  embedding_ = matrix("model.embed_tokens", config.vocabSize, hidden);
  for (int64_t index = 0; index < config.layers; index++) {
    const std::string at = "model.layers." + std::to_string(index) + ".";
    const std::string attention = at + "self_attn.", mlp = at + "mlp.";
    LayerOffsets layer;
    layer.inputNorm = norm(at + "input_layernorm", hidden);
    layer.q = matrix(attention + "q_proj", config.queryDim(), hidden);
    layer.qBias = bias(config.qkvBias, attention + "q_proj", config.queryDim());
    layer.k = matrix(attention + "k_proj", config.kvDim(), hidden);
    layer.kBias = bias(config.qkvBias, attention + "k_proj", config.kvDim());
    layer.v = matrix(attention + "v_proj", config.kvDim(), hidden);
    layer.vBias = bias(config.qkvBias, attention + "v_proj", config.kvDim());
    if (config.qkNorm) {
      layer.qNorm = norm(attention + "q_norm", config.headDim);
      layer.kNorm = norm(attention + "k_norm", config.headDim);
    }
    layer.o = matrix(attention + "o_proj", hidden, config.queryDim());
    layer.oBias = bias(config.outputBias, attention + "o_proj", hidden);
    layer.postNorm = norm(at + "post_attention_layernorm", hidden);
    layer.gate = matrix(mlp + "gate_proj", inner, hidden);
    layer.gateBias = bias(config.mlpBias, mlp + "gate_proj", inner);
    layer.up = matrix(mlp + "up_proj", inner, hidden);
    layer.upBias = bias(config.mlpBias, mlp + "up_proj", inner);
    layer.down = matrix(mlp + "down_proj", hidden, inner);
    layer.downBias = bias(config.mlpBias, mlp + "down_proj", hidden);
    layers_.push_back(layer);
  }
  finalNorm_ = norm("model.norm", hidden);
  head_ = config.tieWordEmbeddings ? embedding_ : matrix("lm_head", config.vocabSize, hidden);
}

const TensorSpec& TensorTable::at(const std::string& name) const {
  const auto found = byName_.find(name);
  if (found == byName_.end()) throw Error("ERR_TENSOR", "The model has no tensor named \"" + name + "\".");
  return tensors_[found->second];
}

}  // namespace primerl
