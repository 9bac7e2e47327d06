// Weights, gradients and moments of one model, with the operations on them. Weights that a snapshot shares are never
// written: the first change after a snapshot copies them. On a device, its memory has gradients and moments, and weights
// travel when the other side is asked for them. Used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "primerl/adamw.h"
#include "primerl/batch.h"
#include "primerl/compute.h"
#include "primerl/device_model.h"
#include "primerl/layout.h"
#include "primerl/loss.h"
#include "primerl/memory.h"
#include "primerl/model.h"

namespace primerl {

using Weights = std::vector<float, LargeAllocator<float>>;
using Snapshot = std::shared_ptr<const Weights>;

enum class DType { f32, f16, bf16 };

/** Bytes of one element. */
int64_t sizeOf(DType dtype);

struct Scores {
  std::vector<float> logprobs;
  std::vector<float> entropy;
};

struct LossReport : Scores {
  LossSums sums;
};

class Network {
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
  const float* weights() { return hostWeights().data(); }

  /** Grows with every change of the weights. */
  uint64_t version() const { return version_; }

  /** Values little-endian, row by row; throws ERR_TENSOR when `bytes` is not the tensor's size. */
  void writeTensor(const std::string& name, DType dtype, const std::vector<uint8_t>& bytes);
  void readTensor(const std::string& name, float* into);
  void readGradient(const std::string& name, float* into);
  void readMoments(const std::string& name, float* first, float* second) const;
  void writeMoments(const std::string& name, const float* first, const float* second);

  /** May be called from any thread. */
  int64_t optimizerSteps() const { return steps_.load(); }
  void setOptimizerSteps(int64_t steps) { steps_.store(steps); }

  /** normal(0, std) for matrices, 1 for norms, 0 for biases. */
  void initialise(const Compute& compute, uint64_t seed, double std);

  Snapshot snapshot();
  /** Throws ERR_STATE when the snapshot is of another shape. */
  void adopt(Snapshot snapshot);

  Scores score(const Compute& compute, const Tokens& tokens);
  LossReport forwardBackward(const Compute& compute, const Batch& batch, const Counts& counts, const LossSpec& loss);
  Scores forward(const Compute& compute, const Batch& batch);
  void backward(const Compute& compute, const std::vector<float>& gradient);
  void zeroGradients();
  /** Clips, steps and zeroes the gradients; throws ERR_STATE when a backward pass did not come to its end. */
  AdamWReport optimizerStep(const Compute& compute, const AdamW& options);

 private:
  void requireTrainable(const char* operation) const;
  /** Throws ERR_OUT_OF_MEMORY when a batch of so many tokens would take more than the limit. */
  void requireRoom(const Compute& compute, int64_t tokens) const;
  /** Up to date with the device. */
  const Weights& hostWeights();
  Weights& mutableWeights();
  Weights& gradients();
  /** Up to date with the host; null when the processor computes. */
  DeviceModel* device();

  Model<float> model_;
  const Options options_;
  std::unique_ptr<DeviceModel> device_;
  std::shared_ptr<Weights> weights_;
  /** weights that only the other side has */
  bool hostIsNewer_ = true;
  bool deviceIsNewer_ = false;
  uint64_t version_ = 1;
  Weights gradients_, first_, second_;  // empty until they are first needed, which reads as zero
  bool gradientsIncomplete_ = false;
  std::atomic<int64_t> steps_{0};
  int64_t forwardTokens_ = 0;
};

}  // namespace primerl
