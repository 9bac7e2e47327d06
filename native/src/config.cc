#include "primerl/config.h"

#include <cmath>
#include <string>

#include "primerl/error.h"

namespace primerl {

namespace {

constexpr int64_t mostLayers = 1 << 16;

void need(bool fine, const std::string& what) {
  if (!fine) throw Error("ERR_CONFIG", "The model configuration cannot be: " + what + ".");
}

void positive(int64_t value, const char* name) {
  need(value > 0, std::string(name) + " is " + std::to_string(value) + ", it must be at least 1");
}

}  // namespace

void ModelConfig::validate() const {
  positive(hiddenSize, "hiddenSize");
  positive(intermediateSize, "intermediateSize");
  positive(layers, "layers");
  need(layers <= mostLayers, "layers is " + std::to_string(layers) + ", at most " + std::to_string(mostLayers) + " are");
  positive(heads, "heads");
  positive(kvHeads, "kvHeads");
  positive(headDim, "headDim");
  positive(vocabSize, "vocabSize");
  positive(maxPositionEmbeddings, "maxPositionEmbeddings");
  need(heads % kvHeads == 0, "heads (" + std::to_string(heads) + ") is not a multiple of kvHeads (" +
                                 std::to_string(kvHeads) + ")");
  need(headDim % 2 == 0, "headDim (" + std::to_string(headDim) + ") is odd, rotary positions need pairs");
  need(std::isfinite(rmsNormEps) && rmsNormEps >= 0, "rmsNormEps is not a finite number of at least 0");
  need(std::isfinite(ropeTheta) && ropeTheta > 0, "ropeTheta is not a finite number above 0");
  if (!ropeScaling.enabled) return;
  positive(ropeScaling.originalMaxPositionEmbeddings, "ropeScaling.originalMaxPositionEmbeddings");
  need(std::isfinite(ropeScaling.factor) && ropeScaling.factor > 0, "ropeScaling.factor is not above 0");
  need(ropeScaling.lowFreqFactor > 0 && ropeScaling.highFreqFactor > ropeScaling.lowFreqFactor,
       "ropeScaling.highFreqFactor is not above lowFreqFactor, and that above 0");
}

}  // namespace primerl
