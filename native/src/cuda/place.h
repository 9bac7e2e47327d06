// A packed batch as the device's kernels want it: places, tiles of attention, tokens by id, and the loss's streams.
#pragma once

#include <algorithm>
#include <vector>

#include "cuda/attention.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/head.cuh"
#include "cuda/runtime.h"
#include "primerl/batch.h"

namespace primerl::cuda {

/** A batch on the device. */
struct Place {
  int64_t tokens = 0;
  std::vector<int32_t> positions;
  DeviceBuffer<int32_t> ids, positionsOnDevice;
  DeviceBuffer<AttentionBlock> blocks;
  int64_t blockCount = 0;
  /** tokens by id */
  DeviceBuffer<int32_t> rows, starts, order;
  int64_t differentIds = 0;
  std::vector<HeadTarget> candidates;

  void fill(const Context& context, const Tokens& batch) {
    tokens = batch.tokens;
    const Positions place(batch);
    positions = place.positions;
    std::vector<AttentionBlock> tiles;
    for (int64_t s = 0; s < batch.sequences; s++) {
      const int32_t start = int32_t(place.starts[size_t(s)]), length = batch.sequenceLengths[s];
      for (int32_t begin = 0; begin < length; begin += attentionTile) tiles.push_back({start, length, begin});
    }
    // the costly ones first, so that the device's processors end together
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](const AttentionBlock& a, const AttentionBlock& b) { return a.begin > b.begin; });
    std::vector<int32_t> sources(static_cast<size_t>(tokens)), different, firsts;
    for (int64_t t = 0; t < tokens; t++) sources[size_t(t)] = int32_t(t);
    const int32_t* all = batch.tokenIds;
    std::stable_sort(sources.begin(), sources.end(), [all](int32_t a, int32_t b) { return all[a] < all[b]; });
    for (int64_t i = 0; i < tokens; i++) {
      const int32_t id = all[sources[size_t(i)]];
      if (!different.empty() && different.back() == id) continue;
      different.push_back(id);
      firsts.push_back(int32_t(i));
    }
    firsts.push_back(int32_t(tokens));
    candidates.clear();
    for (int64_t t = 0; t < tokens; t++) {
      if (positions[size_t(t)] == 0) continue;
      candidates.push_back({int32_t(t - 1), all[t], int32_t(t), 1.0f / batch.temperatures[t]});
    }
    blockCount = int64_t(tiles.size());
    differentIds = int64_t(different.size());
    ids.fill(context, all, tokens);
    positionsOnDevice.fill(context, positions);
    blocks.fill(context, tiles);
    rows.fill(context, different);
    starts.fill(context, firsts);
    order.fill(context, sources);
  }

  AttentionPlan attentionPlan() const { return {tokens, blockCount, blocks.data()}; }
  ScatterPlan scatterPlan() const { return {differentIds, rows.data(), starts.data(), order.data()}; }
};

/** Streams of a batch on the device; one that is absent stays null. */
class DeviceStreams {
 public:
  Batch fill(const Context& context, const Batch& batch) {
    Batch view;
    view.tokens = batch.tokens;
    view.mask = mask_.fill(context, batch.mask, batch.tokens);
    const auto stream = [&](DeviceBuffer<float>& buffer, const float* values) -> const float* {
      return values == nullptr ? nullptr : buffer.fill(context, values, batch.tokens);
    };
    view.logprobs = stream(logprobs_, batch.logprobs);
    view.advantages = stream(advantages_, batch.advantages);
    view.referenceLogprobs = stream(reference_, batch.referenceLogprobs);
    view.rlWeights = stream(rl_, batch.rlWeights);
    view.ceWeights = stream(ce_, batch.ceWeights);
    view.refKlWeights = stream(refKl_, batch.refKlWeights);
    return view;
  }

 private:
  DeviceBuffer<uint8_t> mask_;
  DeviceBuffer<float> logprobs_, advantages_, reference_, rl_, ce_, refKl_;
};

}  // namespace primerl::cuda
