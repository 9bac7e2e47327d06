#include "network.h"

#include <algorithm>

#include "primerl/phases.h"
#include "primerl/plan.h"
#include "random.h"

namespace primerl {

Network::Network(const ModelConfig& config, const Options& options, std::unique_ptr<DeviceModel> device)
    : Parameters(options.trainable, std::make_shared<Shared>()), model_(config, {options.recompute}), options_(options),
      device_(std::move(device)) {
  Pool pool(1);
  requireRoom({pool, Isa::scalar}, 0);
  allocate();
}

std::shared_ptr<Adapter> Network::createAdapter(const LoraOptions& options, bool trainable) const {
  if (device_) throw Error("ERR_CONFIG", "LoRA on CUDA is not there yet: open the engine on the processor.");
  const LoraLayout layout(config(), options);
  const int64_t bytes = Adapter::bytesOf(layout, trainable);
  const int64_t held = shared_->adapterBytes.load();
  PlanOptions planned;
  planned.trainable = options_.trainable;
  planned.adapterBytes = held + bytes;
  requireBytes(memoryPlan(config(), planned).total(), "The model with this adapter");
  return std::make_shared<Adapter>(config(), options, trainable, shared_);
}

uint64_t Network::versionWith(const Adapter* adapter) const {
  return adapter == nullptr ? version() : std::max(version(), adapter->version());
}

void Network::requireRoom(const Compute& compute, int64_t tokens, const Adapter* adapter) const {
  if (options_.memoryLimit == 0) return;
  PlanOptions options;
  options.trainable = options_.trainable;
  options.recompute = options_.recompute;
  options.isa = compute.isa;
  options.precision = compute.precision;
  options.headPrecision = compute.headPrecision;
  options.threads = compute.pool.threads();
  options.tokens = tokens;
  options.adapterBytes = shared_->adapterBytes.load();
  if (adapter != nullptr) {
    options.rank = adapter->layout().options().rank;
    options.drops = adapter->layout().options().dropout > 0;
    options.adapterTrains = adapter->trainable();
  }
  requireBytes(memoryPlan(config(), options).total(),
               tokens == 0 ? "The model" : "A batch of " + std::to_string(tokens) + " tokens");
}

void Network::requireBytes(int64_t needed, const std::string& what) const {
  if (options_.memoryLimit == 0 || needed <= options_.memoryLimit) return;
  throw Error("ERR_OUT_OF_MEMORY",
              what + " takes " + std::to_string(needed) + " bytes, the limit is " +
                  std::to_string(options_.memoryLimit) +
                  ". Train on shorter sequences, turn on activation checkpointing, or raise the limit.");
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

void Network::changed() {
  Parameters::changed();
  model_.forget();
  hostIsNewer_ = true;
  deviceIsNewer_ = false;
}

DeviceModel* Network::device() {
  if (device_ && hostIsNewer_) {
    device_->writeWeights(0, layout().total(), weights_->data());
    hostIsNewer_ = false;
  }
  return device_.get();
}

void Network::readGradient(const std::string& name, float* into) {
  if (!device_) return Parameters::readGradient(name, into);
  requireTrainable("readGradient");
  const TensorSpec& spec = layout().at(name);
  device_->readGradients(spec.offset, spec.count, into);
}

void Network::readMoments(const std::string& name, float* first, float* second) {
  if (!device_) return Parameters::readMoments(name, first, second);
  requireTrainable("readMoments");
  const TensorSpec& spec = layout().at(name);
  device_->readMoments(spec.offset, spec.count, first, second);
}

void Network::writeMoments(const std::string& name, const float* first, const float* second) {
  if (!device_) return Parameters::writeMoments(name, first, second);
  requireTrainable("writeMoments");
  const TensorSpec& spec = layout().at(name);
  device_->writeMoments(spec.offset, spec.count, first, second);
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

Parameters& Network::trained(const char* operation, Adapter* adapter) {
  if (adapter == nullptr) {
    requireTrainable(operation);
    return *this;
  }
  adapter->requireTrainable(operation);
  return *adapter;
}

Scores Network::score(const Compute& compute, const Tokens& tokens, const Adapter* adapter) {
  validateTokens(config(), tokens);
  requireRoom(compute, tokens.tokens, adapter);
  Scores scores;
  scores.logprobs.resize(tokens.tokens);
  scores.entropy.resize(tokens.tokens);
  if (DeviceModel* device = this->device())
    device->score(tokens, nullptr, scores.logprobs.data(), scores.entropy.data(), compute.cancel);
  else
    model_.score(compute, weights(), tokens, scores.logprobs.data(), scores.entropy.data(), scoring(adapter));
  return scores;
}

LossReport Network::forwardBackward(const Compute& compute, const Batch& batch, const Counts& counts,
                                    const LossSpec& loss, Adapter* adapter) {
  Parameters& parameters = trained("forwardBackward", adapter);
  validateBatch(config(), batch);
  requireRoom(compute, batch.tokens, adapter);
  LossReport report;
  report.logprobs.resize(batch.tokens);
  report.entropy.resize(batch.tokens);
  Incomplete incomplete(parameters);
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
      ownGradients(adapter), report.logprobs.data(), report.entropy.data(), training(adapter));
  incomplete.done();
  return report;
}

Scores Network::forward(const Compute& compute, const Batch& batch, Adapter* adapter) {
  trained("forward", adapter);
  validateBatch(config(), batch);
  requireRoom(compute, batch.tokens, adapter);
  Scores scores;
  scores.logprobs.resize(batch.tokens);
  scores.entropy.resize(batch.tokens);
  const std::vector<uint8_t> needed = neededTokens(batch);
  forwardTokens_ = batch.tokens;
  forwardLora_ = training(adapter);
  forwardVersion_ = versionWith(adapter);
  if (DeviceModel* device = this->device())
    device->forward(batch, needed.data(), scores.logprobs.data(), scores.entropy.data(), compute.cancel);
  else
    model_.forward(compute, weights(), batch, needed.data(), scores.logprobs.data(), scores.entropy.data(),
                   forwardLora_);
  return scores;
}

void Network::backward(const Compute& compute, const std::vector<float>& gradient, Adapter* adapter) {
  Parameters& parameters = trained("backward", adapter);
  if (static_cast<int64_t>(gradient.size()) != forwardTokens_)
    throw Error("ERR_STATE", "backward was given " + std::to_string(gradient.size()) +
                                 " gradients, the last forward had " + std::to_string(forwardTokens_) + " tokens");
  if (forwardLora_.layout != (adapter == nullptr ? nullptr : &adapter->layout()) || forwardVersion_ != versionWith(adapter))
    throw Error("ERR_STATE", "the last forward was of another adapter, or of weights that have changed since");
  Incomplete incomplete(parameters);
  if (DeviceModel* device = this->device())
    device->backward(gradient.data(), compute.cancel);
  else
    model_.backward(compute, weights(), gradient.data(), ownGradients(adapter), forwardLora_);
  incomplete.done();
}

void Network::zeroGradients() {
  Parameters::zeroGradients();
  if (device_) device_->zeroGradients();
}

AdamWReport Network::optimizerStep(const Compute& compute, const AdamW& options) {
  if (!device_) return Parameters::optimizerStep(compute, options);
  requireTrainable("optimizerStep");
  requireWhole();
  compute.check();
  int64_t steps = steps_.load();
  DeviceModel* device = this->device();
  const AdamWReport report = device->optimizerStep(options, steps);
  if (report.applied) {
    steps_.store(steps);
    Parameters::changed();
    deviceIsNewer_ = true;
  }
  device->zeroGradients();
  return report;
}

}  // namespace primerl
