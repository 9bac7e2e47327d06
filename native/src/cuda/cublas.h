// cuBLAS, found at run time: building needs none of it, and without it our own kernel multiplies.
#pragma once

#include <memory>
#include <string>

#include "cuda/target.h"

namespace primerl::cuda {

template <class T>
struct Operand;

class Cublas {
 public:
  /** Looks for $PRIMERL_CUBLAS, then for the versions of CUDA 13 and 12. Null when there is none; `reason` then says why. */
  static std::unique_ptr<Cublas> open(void* stream, std::string& reason);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /** As cuBLAS tells it, 130001 for 13.0.1 and so on. */
  int version() const;
  const std::string& path() const;

  /** One matrix of cublasGemmEx, in its own order of columns. */
  struct Matrix {
    const void* data;
    int64_t leading;
    bool transposed;
    bool half;
  };

  /** c[M, N] = a · b (+ c); false when a size is beyond what the call takes. Throws ERR_DEVICE when cuBLAS fails. */
  bool multiply(int64_t M, int64_t N, int64_t K, Matrix a, Matrix b, void* c, int64_t leading, bool halfResult,
                bool accumulate) const;

 private:
  struct Library;
  explicit Cublas(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

/** A row-major matrix is the transpose of one in cuBLAS's order: C = A · B is asked for as Cᵀ = Bᵀ · Aᵀ. */
template <class T, class Out>
bool cublasMatmul(const Context& context, int64_t M, int64_t N, int64_t K, const Operand<T>& a, const Operand<T>& b,
                  Out* c, bool accumulate) {
  const auto matrix = [](const Operand<T>& operand) {
    return Cublas::Matrix{operand.data, operand.width, operand.transposed, sizeof(T) == 2};
  };
  return context.cublas->multiply(N, M, K, matrix(b), matrix(a), c, N, sizeof(Out) == 2, accumulate);
}

}  // namespace primerl::cuda
