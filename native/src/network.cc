#include "network.h"

#include <algorithm>
#include <cstring>

#include "primerl/phases.h"
#include "primerl/plan.h"
#include "random.h"

namespace primerl {
namespace {

float fromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  uint32_t exponent = (half >> 10) & 0x1fu;
  uint32_t fraction = half & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (fraction << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else if (fraction == 0) {
    bits = sign;
  } else {
    exponent = 113;
    while ((fraction & 0x400u) == 0) {
      fraction <<= 1;
      --exponent;
    }
    bits = sign | (exponent << 23) | ((fraction & 0x3ffu) << 13);
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float fromBfloat(uint16_t bfloat) {
  const uint32_t bits = static_cast<uint32_t>(bfloat) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void copyOrZero(const Weights& from, const TensorSpec& spec, float* into) {
  if (from.empty())
    std::fill(into, into + spec.count, 0.0f);
  else
    std::copy_n(from.data() + spec.offset, spec.count, into);
}

// Marks the gradients incomplete unless the pass that adds to them comes to its end.
class Incomplete {
 public:
  explicit Incomplete(bool& flag) : flag_(flag), before_(flag) { flag_ = true; }
  void done() { flag_ = before_; }

 private:
  bool& flag_;
  bool before_;
};

}  // namespace

int64_t sizeOf(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

Network::Network(const ModelConfig& config, const Options& options, std::unique_ptr<DeviceModel> device)
    : model_(config, {options.recompute}), options_(options), device_(std::move(device)) {
  Pool pool(1);
  requireRoom({pool, Isa::scalar}, 0);
  weights_ = std::make_shared<Weights>(model_.layout().total());
}

void Network::requireRoom(const Compute& compute, int64_t tokens) const {
  if (options_.memoryLimit == 0) return;
  PlanOptions options;
  options.trainable = options_.trainable;
  options.recompute = options_.recompute;
  options.isa = compute.isa;
  options.precision = compute.precision;
  options.headPrecision = compute.headPrecision;
  options.threads = compute.pool.threads();
  options.tokens = tokens;
  const int64_t needed = memoryPlan(config(), options).total();
  if (needed <= options_.memoryLimit) return;
  throw Error("ERR_OUT_OF_MEMORY",
              (tokens == 0 ? std::string("The model") : "A batch of " + std::to_string(tokens) + " tokens") +
                  " takes " + std::to_string(needed) + " bytes, the limit is " +
                  std::to_string(options_.memoryLimit) +
                  ". Train on shorter sequences, turn on activation checkpointing, or raise the limit.");
}

void Network::requireTrainable(const char* operation) const {
  if (!options_.trainable)
    throw Error("ERR_STATE", std::string(operation) + " needs an engine that was opened with trainable: true");
}

const Weights& Network::hostWeights() {
  if (deviceIsNewer_) {
    if (weights_.use_count() > 1) weights_ = std::make_shared<Weights>(layout().total());
    std::atomic_thread_fence(std::memory_order_acquire);  // after the reads of an owner that has just let go
    device_->readWeights(0, layout().total(), weights_->data());
    deviceIsNewer_ = false;
  }
  return *weights_;
}

DeviceModel* Network::device() {
  if (device_ && hostIsNewer_) {
    device_->writeWeights(0, layout().total(), weights_->data());
    hostIsNewer_ = false;
  }
  return device_.get();
}

Snapshot Network::snapshot() {
  hostWeights();
  return weights_;
}

Weights& Network::mutableWeights() {
  hostWeights();
  if (weights_.use_count() > 1) weights_ = std::make_shared<Weights>(*weights_);
  std::atomic_thread_fence(std::memory_order_acquire);  // after the reads of an owner that has just let go
  model_.forget();
  ++version_;
  hostIsNewer_ = true;
  return *weights_;
}

Weights& Network::gradients() {
  if (gradients_.empty()) gradients_.resize(layout().total());
  return gradients_;
}

void Network::writeTensor(const std::string& name, DType dtype, const std::vector<uint8_t>& bytes) {
  const TensorSpec& spec = layout().at(name);
  const int64_t expected = spec.count * sizeOf(dtype);
  if (static_cast<int64_t>(bytes.size()) != expected)
    throw Error("ERR_TENSOR", "tensor \"" + name + "\" takes " + std::to_string(expected) + " bytes, " +
                                  std::to_string(bytes.size()) + " were given");
  float* to = mutableWeights().data() + spec.offset;
  if (dtype == DType::f32) {
    std::memcpy(to, bytes.data(), bytes.size());
    return;
  }
  for (int64_t i = 0; i < spec.count; ++i) {
    uint16_t value;
    std::memcpy(&value, bytes.data() + 2 * i, sizeof value);
    to[i] = dtype == DType::f16 ? fromHalf(value) : fromBfloat(value);
  }
}

void Network::readTensor(const std::string& name, float* into) {
  const TensorSpec& spec = layout().at(name);
  std::copy_n(hostWeights().data() + spec.offset, spec.count, into);
}

void Network::readGradient(const std::string& name, float* into) {
  requireTrainable("readGradient");
  const TensorSpec& spec = layout().at(name);
  if (device_)
    device_->readGradients(spec.offset, spec.count, into);
  else
    copyOrZero(gradients_, spec, into);
}

void Network::readMoments(const std::string& name, float* first, float* second) const {
  requireTrainable("readMoments");
  const TensorSpec& spec = layout().at(name);
  if (device_) return device_->readMoments(spec.offset, spec.count, first, second);
  copyOrZero(first_, spec, first);
  copyOrZero(second_, spec, second);
}

void Network::writeMoments(const std::string& name, const float* first, const float* second) {
  requireTrainable("writeMoments");
  const TensorSpec& spec = layout().at(name);
  if (device_) return device_->writeMoments(spec.offset, spec.count, first, second);
  first_.resize(layout().total());
  second_.resize(layout().total());
  std::copy_n(first, spec.count, first_.data() + spec.offset);
  std::copy_n(second, spec.count, second_.data() + spec.offset);
}

void Network::initialise(const Compute& compute, uint64_t seed, double std) {
  Weights& weights = mutableWeights();
  for (const TensorSpec& spec : layout().tensors()) {
    float* to = weights.data() + spec.offset;
    if (spec.kind != TensorKind::matrix) {
      std::fill(to, to + spec.count, spec.kind == TensorKind::norm ? 1.0f : 0.0f);
      continue;
    }
    // A tensor's stream is named by its place in the network, so that its numbers do not hang on other sizes.
    const uint64_t stream = static_cast<uint64_t>(&spec - layout().tensors().data()) + 1;
    compute.check();
    compute.pool.parallelFor(
        (spec.count + 1) / 2,
        [&](int64_t begin, int64_t end) {
          double pair[2];
          for (int64_t p = begin; p < end; ++p) {
            normalPair(seed, stream, static_cast<uint64_t>(p), pair);
            to[2 * p] = static_cast<float>(std * pair[0]);
            if (2 * p + 1 < spec.count) to[2 * p + 1] = static_cast<float>(std * pair[1]);
          }
        },
        4096);
  }
}

void Network::adopt(Snapshot snapshot) {
  if (static_cast<int64_t>(snapshot->size()) != layout().total())
    throw Error("ERR_STATE", "the snapshot holds " + std::to_string(snapshot->size()) +
                                 " parameters, this model has " + std::to_string(layout().total()));
  if (snapshot == weights_ && !deviceIsNewer_) return;
  model_.forget();
  hostIsNewer_ = true;
  deviceIsNewer_ = false;
  ++version_;
  // Shared from here on: `mutableWeights` copies before it writes, as the snapshot is held by at least two.
  weights_ = std::const_pointer_cast<Weights>(std::move(snapshot));
}

Scores Network::score(const Compute& compute, const Tokens& tokens) {
  validateTokens(config(), tokens);
  requireRoom(compute, tokens.tokens);
  Scores scores;
  scores.logprobs.resize(tokens.tokens);
  scores.entropy.resize(tokens.tokens);
  if (DeviceModel* device = this->device())
    device->score(tokens, nullptr, scores.logprobs.data(), scores.entropy.data(), compute.cancel);
  else
    model_.score(compute, weights(), tokens, scores.logprobs.data(), scores.entropy.data());
  return scores;
}

LossReport Network::forwardBackward(const Compute& compute, const Batch& batch, const Counts& counts,
                                    const LossSpec& loss) {
  requireTrainable("forwardBackward");
  validateBatch(config(), batch);
  requireRoom(compute, batch.tokens);
  LossReport report;
  report.logprobs.resize(batch.tokens);
  report.entropy.resize(batch.tokens);
  Incomplete incomplete(gradientsIncomplete_);
  if (DeviceModel* device = this->device()) {
    report.sums = device->forwardBackward(batch, counts, loss, report.logprobs.data(), report.entropy.data(),
                                          compute.cancel);
    incomplete.done();
    return report;
  }
  const std::vector<uint8_t> needed = neededTokens(batch);
  model_.forwardBackward(
      compute, weights(), batch, needed.data(),
      [&](int64_t token, double logprob) { return tokenLoss(batch, loss, counts, token, logprob, report.sums); },
      gradients().data(), report.logprobs.data(), report.entropy.data());
  incomplete.done();
  return report;
}

Scores Network::forward(const Compute& compute, const Batch& batch) {
  requireTrainable("forward");
  validateBatch(config(), batch);
  requireRoom(compute, batch.tokens);
  Scores scores;
  scores.logprobs.resize(batch.tokens);
  scores.entropy.resize(batch.tokens);
  const std::vector<uint8_t> needed = neededTokens(batch);
  forwardTokens_ = batch.tokens;
  if (DeviceModel* device = this->device())
    device->forward(batch, needed.data(), scores.logprobs.data(), scores.entropy.data(), compute.cancel);
  else
    model_.forward(compute, weights(), batch, needed.data(), scores.logprobs.data(), scores.entropy.data());
  return scores;
}

void Network::backward(const Compute& compute, const std::vector<float>& gradient) {
  requireTrainable("backward");
  if (static_cast<int64_t>(gradient.size()) != forwardTokens_)
    throw Error("ERR_STATE", "backward was given " + std::to_string(gradient.size()) +
                                 " gradients, the last forward had " + std::to_string(forwardTokens_) + " tokens");
  Incomplete incomplete(gradientsIncomplete_);
  if (DeviceModel* device = this->device())
    device->backward(gradient.data(), compute.cancel);
  else
    model_.backward(compute, weights(), gradient.data(), gradients().data());
  incomplete.done();
}

void Network::zeroGradients() {
  requireTrainable("zeroGradients");
  if (device_)
    device_->zeroGradients();
  else
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  gradientsIncomplete_ = false;
}

AdamWReport Network::optimizerStep(const Compute& compute, const AdamW& options) {
  requireTrainable("optimizerStep");
  if (gradientsIncomplete_)
    throw Error("ERR_STATE",
                "the gradients are incomplete: a backward pass was cancelled or failed; call zeroGradients first");
  compute.check();
  int64_t steps = steps_.load();
  if (DeviceModel* device = this->device()) {
    const AdamWReport report = device->optimizerStep(options, steps);
    if (report.applied) {
      steps_.store(steps);
      deviceIsNewer_ = true;
      ++version_;
    }
    device->zeroGradients();
    return report;
  }
  PhaseTimer timer(compute, Phase::optimiser, false);
  first_.resize(layout().total());
  second_.resize(layout().total());
  Weights& weights = mutableWeights();
  // From here on nothing may stop it midway: a step is taken whole or not at all.
  const Compute uninterrupted{compute.pool, compute.isa};
  const AdamWReport report = adamwStep(uninterrupted, options, layout().total(), weights.data(), gradients().data(),
                                       first_.data(), second_.data(), steps);
  steps_.store(steps);
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  return report;
}

}  // namespace primerl
