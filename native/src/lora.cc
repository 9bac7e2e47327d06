#include "primerl/lora.h"

#include <cmath>
#include <set>

#include "primerl/error.h"

namespace primerl {
namespace {

constexpr const char* names[projectionCount] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                "mlp.down_proj"};

[[noreturn]] void refuse(const std::string& what) { throw Error("ERR_CONFIG", "The adapter cannot be: " + what + "."); }

void validate(const LoraOptions& options) {
  if (options.rank < 1) refuse("its rank is " + std::to_string(options.rank) + ", and must be at least 1");
  if (!std::isfinite(options.scale)) refuse("its scale is not finite");
  if (!(options.dropout >= 0 && options.dropout < 1)) refuse("its dropout must be at least 0 and less than 1");
  if (options.modules.empty()) refuse("it names no matrix of the model");
}

}  // namespace

ProjectionShape shapeOf(const ModelConfig& config, Projection projection) {
  switch (projection) {
    case Projection::q:
      return {config.hiddenSize, config.queryDim()};
    case Projection::k:
    case Projection::v:
      return {config.hiddenSize, config.kvDim()};
    case Projection::o:
      return {config.queryDim(), config.hiddenSize};
    case Projection::gate:
    case Projection::up:
      return {config.hiddenSize, config.intermediateSize};
    case Projection::down:
      return {config.intermediateSize, config.hiddenSize};
  }
  refuse("it names an unknown matrix");
}

LoraLayout::LoraLayout(const ModelConfig& config, const LoraOptions& options)
    : options_(options), layers_(static_cast<size_t>(config.layers)) {
  validate(options);
  std::set<std::string> wanted(options.modules.begin(), options.modules.end());
  for (int64_t layer = 0; layer < config.layers; layer++) {
    for (size_t index = 0; index < projectionCount; index++) {
      const std::string module = "model.layers." + std::to_string(layer) + "." + names[index];
      if (wanted.erase(module) == 0) continue;
      const ProjectionShape shape = shapeOf(config, static_cast<Projection>(index));
      const std::string at = "base_model.model." + module;
      Pair& pair = layers_[static_cast<size_t>(layer)][index];
      pair.a = add(at + ".lora_A.weight", {options.rank, shape.in}, TensorKind::matrix);
      pair.b = add(at + ".lora_B.weight", {shape.out, options.rank}, TensorKind::matrix);
    }
  }
  if (!wanted.empty()) refuse("\"" + *wanted.begin() + "\" is no matrix of a layer of this model");
}

}  // namespace primerl
