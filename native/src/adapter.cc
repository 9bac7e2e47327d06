#include "adapter.h"

#include <cmath>

#include "random.h"

namespace primerl {
namespace {

constexpr uint64_t maskStream = 0x6d61736bULL;

}  // namespace

Adapter::Adapter(const ModelConfig& config, const LoraOptions& options, bool trainable, std::shared_ptr<Shared> shared)
    : Parameters(trainable, std::move(shared)), config_(config), layout_(config, options), id_(version()) {
  allocate();
  initialise();
  shared_->adapterBytes += bytesOf(layout_, trainable);
}

Adapter::~Adapter() { shared_->adapterBytes -= bytesOf(layout_, trainable_); }

int64_t Adapter::bytesOf(const LoraLayout& layout, bool trainable) {
  return layout.total() * static_cast<int64_t>(sizeof(float)) * (trainable ? 4 : 1);
}

void Adapter::initialise() {
  Weights& weights = mutableWeights();
  // A's stream is named by its place, so that its numbers do not hang on the rank of others.
  uint64_t stream = 0;
  for (const TensorSpec& spec : layout_.tensors()) {
    float* to = weights.data() + spec.offset;
    const bool isA = stream++ % 2 == 0;
    const double limit = 1 / std::sqrt(static_cast<double>(spec.shape[1]));
    for (int64_t i = 0; i < spec.count; ++i)
      to[i] = isA ? static_cast<float>(limit * (2 * uniform(layout_.options().seed, stream, static_cast<uint64_t>(i)) - 1))
                  : 0.0f;
  }
}

void Adapter::zeroGradients() {
  Parameters::zeroGradients();
  passes_ = 0;
}

AdamWReport Adapter::optimizerStep(const Compute& compute, const AdamW& options) {
  const AdamWReport report = Parameters::optimizerStep(compute, options);
  passes_ = 0;
  return report;
}

LoraPass<float> Adapter::scoring() const {
  LoraPass<float> pass;
  pass.layout = &layout_;
  pass.weights = weights_->data();
  return pass;
}

LoraPass<float> Adapter::training() {
  LoraPass<float> pass = scoring();
  pass.gradients = gradients().data();
  pass.drops = true;
  const uint64_t step = randomBits(layout_.options().seed, maskStream, static_cast<uint64_t>(optimizerSteps()));
  pass.maskSeed = randomBits(step, maskStream, passes_++);
  return pass;
}

std::shared_ptr<const DecoderAdapter> Adapter::decoder(const Compute& compute) {
  if (decoderVersion_ != version()) {
    decoder_ = std::make_shared<DecoderAdapter>(compute, config_, scoring());
    decoderVersion_ = version();
  }
  return decoder_;
}

}  // namespace primerl
