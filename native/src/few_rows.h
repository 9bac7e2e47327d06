// Products of a decoding step: few rows, all of the weights. Bit for bit those of `gemm`.
#pragma once

#include "primerl/gemm.h"

namespace primerl {

/** y[count, b.columns()] = x[count, b.depth()] · b, or += when `accumulate`. */
void product(const Compute& compute, int64_t count, const float* x, const PackedMatrix<float>& b, float* y,
             bool accumulate);

}  // namespace primerl
