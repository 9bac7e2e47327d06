// Adapters for tests.
#pragma once

#include "models.h"
#include "primerl/lora.h"

namespace adapters {

using namespace primerl;

inline constexpr const char* projections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                       "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

/** On every matrix of every layer. */
inline LoraOptions everywhere(const ModelConfig& config, int64_t rank, double scale) {
  LoraOptions options;
  options.rank = rank;
  options.scale = scale;
  options.seed = 5;
  for (int64_t layer = 0; layer < config.layers; layer++)
    for (const char* name : projections) options.modules.push_back("model.layers." + std::to_string(layer) + "." + name);
  return options;
}

}  // namespace adapters
