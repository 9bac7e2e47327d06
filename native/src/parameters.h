// One set of tensors that can be trained: values, gradients and AdamW's moments, on the processor. Values that a snapshot
// shares are never written: the first change after a snapshot copies them. Used by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "primerl/adamw.h"
#include "primerl/compute.h"
#include "primerl/layout.h"
#include "primerl/memory.h"

namespace primerl {

using Weights = std::vector<float, LargeAllocator<float>>;
using Snapshot = std::shared_ptr<const Weights>;

enum class DType { f32, f16, bf16 };

/** Bytes of one element. */
int64_t sizeOf(DType dtype);

/** What a model and its adapters count together. May be used from any thread. */
struct Shared {
  /** of the last change of any of them: no two changes have the same number */
  std::atomic<uint64_t> version{0};
  /** bytes of adapters: values, gradients, moments */
  std::atomic<int64_t> adapterBytes{0};
};

class Parameters {
 public:
  virtual ~Parameters() = default;

  virtual const TensorTable& table() const = 0;

  /** Grows with every change of the values. */
  uint64_t version() const { return version_; }

  /** Values little-endian, row by row; throws ERR_TENSOR when `bytes` is not the tensor's size. */
  void writeTensor(const std::string& name, DType dtype, const std::vector<uint8_t>& bytes);
  void readTensor(const std::string& name, float* into);
  virtual void readGradient(const std::string& name, float* into);
  virtual void readMoments(const std::string& name, float* first, float* second);
  virtual void writeMoments(const std::string& name, const float* first, const float* second);

  /** May be called from any thread. */
  int64_t optimizerSteps() const { return steps_.load(); }
  void setOptimizerSteps(int64_t steps) { steps_.store(steps); }

  Snapshot snapshot();
  /** Throws ERR_STATE when the snapshot is of another shape. */
  void adopt(Snapshot snapshot);

  virtual void zeroGradients();
  /** Clips, steps and zeroes the gradients; throws ERR_STATE when a backward pass did not come to its end. */
  virtual AdamWReport optimizerStep(const Compute& compute, const AdamW& options);

 protected:
  Parameters(bool trainable, std::shared_ptr<Shared> shared);

  /** Before anything else is called. */
  void allocate();
  void requireTrainable(const char* operation) const;
  void requireWhole() const;

  /** Another place may have the newest values; asked before they are read here. */
  virtual const Weights& hostWeights() { return *weights_; }
  /** Whether this is the place. */
  virtual bool isNewest() const { return true; }
  /** The values have changed here. */
  virtual void changed() { version_ = ++shared_->version; }
  Weights& mutableWeights();
  Weights& gradients();

  /** Marks the gradients incomplete unless the pass that adds to them comes to its end. */
  class Incomplete {
   public:
    explicit Incomplete(Parameters& of) : flag_(of.gradientsIncomplete_), before_(flag_) { flag_ = true; }
    void done() { flag_ = before_; }

   private:
    bool& flag_;
    bool before_;
  };

  const bool trainable_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<Weights> weights_;
  uint64_t version_ = 0;
  Weights gradients_, first_, second_;  // empty until they are first needed, which reads as zero
  bool gradientsIncomplete_ = false;
  std::atomic<int64_t> steps_{0};
};

}  // namespace primerl
