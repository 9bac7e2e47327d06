// One model: its parameters, and the passes over packed batches, with an adapter or without. On a device, its memory has
// gradients and moments, and weights travel when the other side is asked for them. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter.h"
#include "parameters.h"
#include "primerl/batch.h"
#include "primerl/compute.h"
#include "primerl/device_model.h"
#include "primerl/loss.h"
#include "primerl/model.h"

namespace primerl {

struct Scores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
};

struct LossReport : Scores {
  LossSums sums;
};

class Network : public Parameters {
 public:
  struct Options {
    bool trainable = false;
    /** compute the activations of layers again in the backward pass */
    bool recompute = false;
    /** most bytes that weights, gradients, moments and a batch may take together; 0: no limit */
    int64_t memoryLimit = 0;
  };

  /** Passes and steps run on `device`, or on the processor when it is null. Throws ERR_OUT_OF_MEMORY when the weights alone are above the limit. */
  Network(const ModelConfig& config, const Options& options, std::unique_ptr<DeviceModel> device = nullptr);

  const ModelConfig& config() const { return model_.config(); }
  const Layout& layout() const { return model_.layout(); }
  const TensorTable& table() const override { return layout(); }
  const float* weights() { return hostWeights().data(); }

  /** An adapter on this model, with the first values of its seed. Throws ERR_CONFIG when it cannot be, ERR_OUT_OF_MEMORY
   * when it is above the limit. May be called from any thread. */
  std::shared_ptr<Adapter> createAdapter(const LoraOptions& options, bool trainable) const;

  /** Grows with every change of what the adapter (null: none) computes with. */
  uint64_t versionWith(const Adapter* adapter) const;

  void readGradient(const std::string& name, float* into) override;
  void readMoments(const std::string& name, float* first, float* second) override;
  void writeMoments(const std::string& name, const float* first, const float* second) override;
  void zeroGradients() override;
  AdamWReport optimizerStep(const Compute& compute, const AdamW& options) override;

  /** normal(0, std) for matrices, 1 for norms, 0 for biases. */
  void initialise(const Compute& compute, uint64_t seed, double std);

  /** Of the model with an adapter, or without; a pass under an adapter adds to the adapter's gradients alone. */
  Scores score(const Compute& compute, const Tokens& tokens, const Adapter* adapter = nullptr);
  LossReport forwardBackward(const Compute& compute, const Batch& batch, const Counts& counts, const LossSpec& loss,
                             Adapter* adapter = nullptr);
  Scores forward(const Compute& compute, const Batch& batch, Adapter* adapter = nullptr);
  /** Throws ERR_STATE when the last forward was under another adapter, or its values have changed since. */
  void backward(const Compute& compute, const std::vector<float>& gradient, Adapter* adapter = nullptr);

 protected:
  const Weights& hostWeights() override;
  bool isNewest() const override { return !deviceIsNewer_; }
  void changed() override;

 private:
  /** Throws ERR_OUT_OF_MEMORY when a batch of so many tokens would take more than the limit. */
  void requireRoom(const Compute& compute, int64_t tokens, const Adapter* adapter = nullptr) const;
  void requireBytes(int64_t needed, const std::string& what) const;
  /** Of the model itself; null where an adapter is trained instead. */
  float* ownGradients(const Adapter* adapter) { return adapter == nullptr ? gradients().data() : nullptr; }
  static LoraPass<float> scoring(const Adapter* adapter) { return adapter == nullptr ? LoraPass<float>() : adapter->scoring(); }
  static LoraPass<float> training(Adapter* adapter) { return adapter == nullptr ? LoraPass<float>() : adapter->training(); }
  /** Up to date with the host; null when the processor computes. */
  DeviceModel* device();
  /** Who is trained by a pass. */
  Parameters& trained(const char* operation, Adapter* adapter);

  Model<float> model_;
  const Options options_;
  std::unique_ptr<DeviceModel> device_;
  /** weights that only the other side has */
  bool hostIsNewer_ = true;
  bool deviceIsNewer_ = false;
  /** of the last forward */
  int64_t forwardTokens_ = 0;
  uint64_t forwardVersion_ = 0;
  LoraPass<float> forwardLora_;
};

}  // namespace primerl
