#include "cuda/cublas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <limits>
#include <vector>

namespace primerl::cuda {

namespace {

// From the documentation of cuBLAS; these numbers are part of its binary interface.
constexpr int real32 = 0, bfloat16 = 14, compute32 = 68, defaultAlgorithm = -1;
constexpr int plain = 0, transposedOperand = 1;

using Create = int (*)(void** handle);
using Destroy = int (*)(void* handle);
using SetStream = int (*)(void* handle, void* stream);
using GetVersion = int (*)(void* handle, int* version);
using GemmEx = int (*)(void* handle, int operationA, int operationB, int m, int n, int k, const void* alpha,
                       const void* a, int typeA, int lda, const void* b, int typeB, int ldb, const void* beta, void* c,
                       int typeC, int ldc, int compute, int algorithm);

std::vector<std::string> names() {
  if (const char* own = std::getenv("PRIMERL_CUBLAS")) return {own};
  return {"libcublas.so.13", "libcublas.so.12", "libcublas.so"};
}

}  // namespace

struct Cublas::Library {
  void* library = nullptr;
  void* handle = nullptr;
  std::string path;
  int version = 0;
  Destroy destroy = nullptr;
  GemmEx gemm = nullptr;

  ~Library() {
    if (handle != nullptr) destroy(handle);
    if (library != nullptr) dlclose(library);
  }
};

Cublas::Cublas(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Cublas::~Cublas() = default;

int Cublas::version() const { return library_->version; }
const std::string& Cublas::path() const { return library_->path; }

std::unique_ptr<Cublas> Cublas::open(void* stream, std::string& reason) {
  auto found = std::make_unique<Library>();
  std::string tried;
  for (const std::string& name : names()) {
    tried += (tried.empty() ? "" : ", ") + name;
    found->library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    found->path = name;
    if (found->library != nullptr) break;
  }
  if (found->library == nullptr) {
    reason = "none of " + tried + " can be loaded";
    return nullptr;
  }
  const auto symbol = [&](const char* name) { return dlsym(found->library, name); };
  const auto create = reinterpret_cast<Create>(symbol("cublasCreate_v2"));
  const auto setStream = reinterpret_cast<SetStream>(symbol("cublasSetStream_v2"));
  const auto getVersion = reinterpret_cast<GetVersion>(symbol("cublasGetVersion_v2"));
  found->destroy = reinterpret_cast<Destroy>(symbol("cublasDestroy_v2"));
  found->gemm = reinterpret_cast<GemmEx>(symbol("cublasGemmEx"));
  if (create == nullptr || setStream == nullptr || getVersion == nullptr || found->destroy == nullptr ||
      found->gemm == nullptr) {
    reason = found->path + " lacks a function of cuBLAS";
    return nullptr;
  }
  int status = create(&found->handle);
  if (status == 0) status = setStream(found->handle, stream);
  if (status == 0) status = getVersion(found->handle, &found->version);
  if (status != 0) {
    reason = found->path + " does not start: status " + std::to_string(status);
    return nullptr;
  }
  return std::unique_ptr<Cublas>(new Cublas(std::move(found)));
}

bool Cublas::multiply(int64_t M, int64_t N, int64_t K, Matrix a, Matrix b, void* c, int64_t leading, bool halfResult,
                      bool accumulate) const {
  for (const int64_t size : {M, N, K, a.leading, b.leading, leading}) {
    if (size > std::numeric_limits<int>::max()) return false;
  }
  const float one = 1, beta = accumulate ? 1.0f : 0.0f;
  const auto operation = [](const Matrix& matrix) { return matrix.transposed ? transposedOperand : plain; };
  const auto type = [](bool half) { return half ? bfloat16 : real32; };
  const int status = library_->gemm(library_->handle, operation(a), operation(b), int(M), int(N), int(K), &one, a.data,
                                    type(a.half), int(a.leading), b.data, type(b.half), int(b.leading), &beta, c,
                                    type(halfResult), int(leading), compute32, defaultAlgorithm);
  if (status != 0) {
    throw Error("ERR_DEVICE", "cuBLAS does not multiply " + std::to_string(M) + " x " + std::to_string(N) + " x " +
                                  std::to_string(K) + ": status " + std::to_string(status));
  }
  return true;
}

}  // namespace primerl::cuda
