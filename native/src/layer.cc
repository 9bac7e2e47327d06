#include "layer.h"

#include <algorithm>

namespace primerl {

namespace {

/** The tensor at an offset; null when the model has none. */
template <class T>
T* at(T* arena, int64_t offset) {
  return offset == absent ? nullptr : arena + offset;
}

template <class T>
AttentionShape attentionShape(const LayerContext<T>& layer) {
  return {layer.config.heads, layer.config.kvHeads, layer.config.headDim};
}

template <class T>
T* normedInput(const LayerContext<T>& layer) {
  const int64_t tokens = layer.work.tokens, width = layer.config.hiddenSize;
  T* normed = layer.work.normed.need(tokens * width);
  rmsNorm(layer.compute, tokens, width, layer.x, at(layer.weights, layer.offsets.inputNorm), layer.config.rmsNormEps,
          normed, layer.kept.inputRstd.need(tokens));
  return normed;
}

template <class T>
T* normedMiddle(const LayerContext<T>& layer) {
  const int64_t tokens = layer.work.tokens, width = layer.config.hiddenSize;
  T* normed = layer.work.normed.need(tokens * width);
  rmsNorm(layer.compute, tokens, width, layer.kept.middle.data(), at(layer.weights, layer.offsets.postNorm),
          layer.config.rmsNormEps, normed, layer.kept.middleRstd.need(tokens));
  return normed;
}

template <class T>
T* activated(const LayerContext<T>& layer) {
  const int64_t count = layer.work.tokens * layer.config.intermediateSize;
  T* out = layer.work.activated.need(count);
  swiglu(layer.compute, count, layer.kept.gate.data(), layer.kept.up.data(), out);
  return out;
}

/** Projects to heads, norms them if the model does, and rotates them. */
template <class T>
void rotatedHeads(const LayerContext<T>& layer, const T* normed, int64_t heads, int64_t w, int64_t bias, int64_t norm,
                  Buffer<T>& raw, Buffer<T>& rstd, Buffer<T>& out) {
  const ModelConfig& config = layer.config;
  const int64_t tokens = layer.work.tokens, width = heads * config.headDim;
  T* y = out.need(tokens * width);
  T* projected = norm == absent ? y : raw.need(tokens * width);
  linear(layer.compute, tokens, config.hiddenSize, width, normed, at(layer.weights, w), at(layer.weights, bias),
         projected);
  if (norm != absent) {
    rmsNorm(layer.compute, tokens * heads, config.headDim, projected, at(layer.weights, norm), config.rmsNormEps, y,
            rstd.need(tokens * heads));
  }
  rope(layer.compute, tokens, heads, layer.work.place().positions.data(), layer.rope, y, false);
}

/** `dy` is the gradient of the rotated heads; adds the gradient of the layer's normed input to `dNormed`. */
template <class T>
void rotatedHeadsBackward(const LayerContext<T>& layer, const T* normed, int64_t heads, int64_t w, int64_t bias,
                          int64_t norm, const Buffer<T>& raw, const Buffer<T>& rstd, T* dy, T* dNormed,
                          bool accumulate, T* gradients) {
  const ModelConfig& config = layer.config;
  const int64_t tokens = layer.work.tokens, width = heads * config.headDim;
  rope(layer.compute, tokens, heads, layer.work.place().positions.data(), layer.rope, dy, true);
  if (norm != absent) {
    rmsNormBackward(layer.compute, tokens * heads, config.headDim, raw.data(), at(layer.weights, norm), rstd.data(),
                    dy, dy, false, at(gradients, norm));
  }
  linearBackward(layer.compute, tokens, config.hiddenSize, width, normed, at(layer.weights, w), dy, dNormed,
                 accumulate, at(gradients, w), at(gradients, bias));
}

}  // namespace

template <class T>
void layerForward(const LayerContext<T>& layer, T* next) {
  const Compute& compute = layer.compute;
  const ModelConfig& config = layer.config;
  const LayerOffsets& offsets = layer.offsets;
  LayerActivations<T>& kept = layer.kept;
  const int64_t tokens = layer.work.tokens, hidden = config.hiddenSize, inner = config.intermediateSize;

  const T* normed = normedInput(layer);
  rotatedHeads(layer, normed, config.heads, offsets.q, offsets.qBias, offsets.qNorm, kept.rawQ, kept.qRstd, kept.q);
  rotatedHeads(layer, normed, config.kvHeads, offsets.k, offsets.kBias, offsets.kNorm, kept.rawK, kept.kRstd, kept.k);
  T* v = kept.v.need(tokens * config.kvDim());
  linear(compute, tokens, hidden, config.kvDim(), normed, at(layer.weights, offsets.v),
         at(layer.weights, offsets.vBias), v);
  T* attended = kept.attended.need(tokens * config.queryDim());
  attention(compute, attentionShape(layer), layer.work.place(), kept.q.data(), kept.k.data(), v, attended);
  T* middle = kept.middle.need(tokens * hidden);
  std::copy_n(layer.x, tokens * hidden, middle);
  linear(compute, tokens, config.queryDim(), hidden, attended, at(layer.weights, offsets.o),
         at(layer.weights, offsets.oBias), middle, true);

  normed = normedMiddle(layer);
  linear(compute, tokens, hidden, inner, normed, at(layer.weights, offsets.gate), at(layer.weights, offsets.gateBias),
         kept.gate.need(tokens * inner));
  linear(compute, tokens, hidden, inner, normed, at(layer.weights, offsets.up), at(layer.weights, offsets.upBias),
         kept.up.need(tokens * inner));
  std::copy_n(middle, tokens * hidden, next);
  linear(compute, tokens, inner, hidden, activated(layer), at(layer.weights, offsets.down),
         at(layer.weights, offsets.downBias), next, true);
}

template <class T>
void layerBackward(const LayerContext<T>& layer, T* stream, T* gradients) {
  const Compute& compute = layer.compute;
  const ModelConfig& config = layer.config;
  const LayerOffsets& offsets = layer.offsets;
  LayerActivations<T>& kept = layer.kept;
  Workspace<T>& work = layer.work;
  const int64_t tokens = work.tokens, hidden = config.hiddenSize, inner = config.intermediateSize;

  T* dNormed = work.dNormed.need(tokens * hidden);
  T* active = activated(layer);
  T* dActive = work.dActivated.need(tokens * inner);
  linearBackward(compute, tokens, inner, hidden, active, at(layer.weights, offsets.down), stream, dActive, false,
                 at(gradients, offsets.down), at(gradients, offsets.downBias));
  swigluBackward(compute, tokens * inner, kept.gate.data(), kept.up.data(), dActive);
  const T* normed = normedMiddle(layer);
  linearBackward(compute, tokens, hidden, inner, normed, at(layer.weights, offsets.gate), kept.gate.data(), dNormed,
                 false, at(gradients, offsets.gate), at(gradients, offsets.gateBias));
  linearBackward(compute, tokens, hidden, inner, normed, at(layer.weights, offsets.up), kept.up.data(), dNormed, true,
                 at(gradients, offsets.up), at(gradients, offsets.upBias));
  rmsNormBackward(compute, tokens, hidden, kept.middle.data(), at(layer.weights, offsets.postNorm),
                  kept.middleRstd.data(), dNormed, stream, true, at(gradients, offsets.postNorm));

  T* dAttended = work.dAttended.need(tokens * config.queryDim());
  linearBackward(compute, tokens, config.queryDim(), hidden, kept.attended.data(), at(layer.weights, offsets.o),
                 stream, dAttended, false, at(gradients, offsets.o), at(gradients, offsets.oBias));
  T* dq = work.dq.need(tokens * config.queryDim());
  T* dk = work.dk.need(tokens * config.kvDim());
  T* dv = work.dv.need(tokens * config.kvDim());
  attentionBackward(compute, attentionShape(layer), work.place(), kept.q.data(), kept.k.data(), kept.v.data(),
                    kept.attended.data(), dAttended, dq, dk, dv);
  normed = normedInput(layer);
  rotatedHeadsBackward(layer, normed, config.heads, offsets.q, offsets.qBias, offsets.qNorm, kept.rawQ, kept.qRstd, dq,
                       dNormed, false, gradients);
  rotatedHeadsBackward(layer, normed, config.kvHeads, offsets.k, offsets.kBias, offsets.kNorm, kept.rawK, kept.kRstd,
                       dk, dNormed, true, gradients);
  linearBackward(compute, tokens, hidden, config.kvDim(), normed, at(layer.weights, offsets.v), dv, dNormed, true,
                 at(gradients, offsets.v), at(gradients, offsets.vBias));
  rmsNormBackward(compute, tokens, hidden, layer.x, at(layer.weights, offsets.inputNorm), kept.inputRstd.data(),
                  dNormed, stream, true, at(gradients, offsets.inputNorm));
}

template void layerForward<float>(const LayerContext<float>&, float*);
template void layerForward<double>(const LayerContext<double>&, double*);
template void layerBackward<float>(const LayerContext<float>&, float*, float*);
template void layerBackward<double>(const LayerContext<double>&, double*, double*);

}  // namespace primerl
