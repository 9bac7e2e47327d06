#include "parameters.h"

#include <algorithm>
#include <cstring>

#include "primerl/phases.h"

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

}  // namespace

int64_t sizeOf(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

Parameters::Parameters(bool trainable, std::shared_ptr<Shared> shared)
    : trainable_(trainable), shared_(std::move(shared)), version_(++shared_->version) {}

void Parameters::allocate() { weights_ = std::make_shared<Weights>(table().total()); }

void Parameters::requireTrainable(const char* operation) const {
  if (!trainable_)
    throw Error("ERR_STATE", std::string(operation) + " needs an engine that was opened with trainable: true");
}

void Parameters::requireWhole() const {
  if (gradientsIncomplete_)
    throw Error("ERR_STATE",
                "the gradients are incomplete: a backward pass was cancelled or failed; call zeroGradients first");
}

Snapshot Parameters::snapshot() {
  hostWeights();
  return weights_;
}

Weights& Parameters::mutableWeights() {
  hostWeights();
  if (weights_.use_count() > 1) weights_ = std::make_shared<Weights>(*weights_);
  std::atomic_thread_fence(std::memory_order_acquire);  // after the reads of an owner that has just let go
  changed();
  return *weights_;
}

Weights& Parameters::gradients() {
  if (gradients_.empty()) gradients_.resize(table().total());
  return gradients_;
}

void Parameters::writeTensor(const std::string& name, DType dtype, const std::vector<uint8_t>& bytes) {
  const TensorSpec& spec = table().at(name);
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

void Parameters::readTensor(const std::string& name, float* into) {
  const TensorSpec& spec = table().at(name);
  std::copy_n(hostWeights().data() + spec.offset, spec.count, into);
}

void Parameters::readGradient(const std::string& name, float* into) {
  requireTrainable("readGradient");
  copyOrZero(gradients_, table().at(name), into);
}

void Parameters::readMoments(const std::string& name, float* first, float* second) {
  requireTrainable("readMoments");
  const TensorSpec& spec = table().at(name);
  copyOrZero(first_, spec, first);
  copyOrZero(second_, spec, second);
}

void Parameters::writeMoments(const std::string& name, const float* first, const float* second) {
  requireTrainable("writeMoments");
  const TensorSpec& spec = table().at(name);
  first_.resize(table().total());
  second_.resize(table().total());
  std::copy_n(first, spec.count, first_.data() + spec.offset);
  std::copy_n(second, spec.count, second_.data() + spec.offset);
}

void Parameters::adopt(Snapshot snapshot) {
  if (static_cast<int64_t>(snapshot->size()) != table().total())
    throw Error("ERR_STATE", "the snapshot holds " + std::to_string(snapshot->size()) +
                                 " parameters, this model has " + std::to_string(table().total()));
  if (snapshot == weights_ && isNewest()) return;
  // Shared from here on: `mutableWeights` copies before it writes, as the snapshot is held by at least two.
  weights_ = std::const_pointer_cast<Weights>(std::move(snapshot));
  changed();
}

void Parameters::zeroGradients() {
  requireTrainable("zeroGradients");
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  gradientsIncomplete_ = false;
}

AdamWReport Parameters::optimizerStep(const Compute& compute, const AdamW& options) {
  requireTrainable("optimizerStep");
  requireWhole();
  compute.check();
  PhaseTimer timer(compute, Phase::optimiser, false);
  int64_t steps = steps_.load();
  first_.resize(table().total());
  second_.resize(table().total());
  Weights& weights = mutableWeights();
  // From here on nothing may stop it midway: a step is taken whole or not at all.
  const Compute uninterrupted{compute.pool, compute.isa};
  const AdamWReport report = adamwStep(uninterrupted, options, table().total(), weights.data(), gradients().data(),
                                       first_.data(), second_.data(), steps);
  steps_.store(steps);
  std::fill(gradients_.begin(), gradients_.end(), 0.0f);
  return report;
}

}  // namespace primerl
