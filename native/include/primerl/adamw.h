// A gradient or a step size that is not finite changes nothing: neither weights, nor moments, nor the step count.
#pragma once

#include <cstdint>

#include "primerl/compute.h"

namespace primerl {

/** Adam with decoupled weight decay (arXiv 1711.05101, Algorithm 2). Decay applies to every parameter. */
struct AdamW {
  double learningRate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weightDecay = 0;
  /** largest global norm of the gradient; 0 or less does not clip */
  double maxGradNorm = 0;
};

struct AdamWReport {
  /** global norm of the gradient before clipping */
  double gradNorm = 0;
  bool applied = false;
};

/** Numbers of one AdamW step that are the same for every parameter. */
struct AdamWStep {
  double clip;
  double beta1;
  double beta2;
  double eps;
  /** learning rate / (1 - beta1^t) */
  double stepSize;
  /** 1 / (1 - beta2^t) */
  double secondCorrection;
  /** 1 - learning rate * weight decay */
  double decay;
};

/**
 * The numbers of step `steps + 1`, as T keeps them. False when the norm or one of them is not finite in T, as a learning
 * rate of 1e300 is not in float: then no step is to be taken.
 */
template <class T>
bool adamwNumbers(const AdamW& options, int64_t steps, double gradNorm, AdamWStep& step);

/** Euclidean norm, summed in double in fixed blocks. */
template <class T>
double globalNorm(const Compute& compute, const T* values, int64_t count);

/** `steps` is the number of steps taken before this one; it grows by one when the step is applied. */
template <class T>
AdamWReport adamwStep(const Compute& compute, const AdamW& options, int64_t count, T* weights, const T* gradients,
                      T* first, T* second, int64_t& steps);

}  // namespace primerl
