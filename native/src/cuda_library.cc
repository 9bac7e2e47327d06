#include "cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "primerl/cuda_abi.h"
#include "primerl/error.h"

namespace primerl {

namespace {

/** Beside the file that holds this code. */
std::string libraryPath() {
  if (const char* own = std::getenv("PRIMERL_CUDA_LIBRARY")) return own;
  Dl_info info;
  std::string path;
  if (dladdr(reinterpret_cast<void*>(&cudaReport), &info) != 0 && info.dli_fname != nullptr) path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "primerl_cuda.so";
}

bool loads(const char* name) {
  void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

/** The library's table; null with a reason. Stays loaded once it was. */
const PrimerlCuda* load(CudaReport& report) {
  report.path = libraryPath();
  report.driver = loads("libcuda.so.1");
  const bool chosen = std::getenv("PRIMERL_CUDA_LIBRARY") != nullptr;
  if (!report.driver && !chosen) {
    // Without a driver the library is not even loaded: whether it is there is told all the same.
    void* there = dlopen(report.path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    report.built = there != nullptr;
    if (there != nullptr) dlclose(there);
    report.reason = "there is no NVIDIA driver (libcuda.so.1 cannot be loaded)";
    return nullptr;
  }
  void* library = dlopen(report.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    report.reason = std::string("the CUDA library is not built: install the CUDA toolkit (nvcc) and run \"node "
                                "native/build.mjs cuda\" (") + (why == nullptr ? report.path : why) + ")";
    return nullptr;
  }
  report.built = true;
  const auto entry = reinterpret_cast<PrimerlCudaEntry>(dlsym(library, "primerlCuda"));
  if (entry == nullptr || entry()->abi != cudaAbi) {
    report.reason = report.path + " belongs to another version; run \"node native/build.mjs cuda\"";
    return nullptr;
  }
  return entry();
}

[[noreturn]] void raise(const PrimerlFailure& failure) { throw Error(failure.code, failure.message); }

class LibraryModel final : public DeviceModel {
 public:
  LibraryModel(const PrimerlCuda& cuda, const ModelConfig& config, const DeviceModelOptions& options) : cuda_(cuda) {
    model_ = cuda_.open(&config, &options, 0, &failure_);
    if (model_ == nullptr) raise(failure_);
  }
  ~LibraryModel() override { cuda_.close(model_); }
  LibraryModel(const LibraryModel&) = delete;
  LibraryModel& operator=(const LibraryModel&) = delete;

  void writeWeights(int64_t offset, int64_t count, const float* values) override {
    need(cuda_.writeWeights(model_, offset, count, values, &failure_));
  }
  void readWeights(int64_t offset, int64_t count, float* into) override {
    need(cuda_.readWeights(model_, offset, count, into, &failure_));
  }
  void readGradients(int64_t offset, int64_t count, float* into) override {
    need(cuda_.readGradients(model_, offset, count, into, &failure_));
  }
  void readMoments(int64_t offset, int64_t count, float* first, float* second) override {
    need(cuda_.readMoments(model_, offset, count, first, second, &failure_));
  }
  void writeMoments(int64_t offset, int64_t count, const float* first, const float* second) override {
    need(cuda_.writeMoments(model_, offset, count, first, second, &failure_));
  }
  void score(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
             const Cancel* cancel) override {
    need(cuda_.score(model_, &tokens, needed, logprobs, entropy, cancel, &failure_));
  }
  void forward(const Tokens& tokens, const uint8_t* needed, float* logprobs, float* entropy,
               const Cancel* cancel) override {
    need(cuda_.forward(model_, &tokens, needed, logprobs, entropy, cancel, &failure_));
  }
  void backward(const float* gradient, const Cancel* cancel) override {
    need(cuda_.backward(model_, gradient, cancel, &failure_));
  }
  LossSums forwardBackward(const Batch& batch, const Counts& counts, const LossSpec& loss, float* logprobs,
                           float* entropy, const Cancel* cancel) override {
    LossSums sums;
    need(cuda_.forwardBackward(model_, &batch, &counts, &loss, logprobs, entropy, &sums, cancel, &failure_));
    return sums;
  }
  void zeroGradients() override { need(cuda_.zeroGradients(model_, &failure_)); }
  AdamWReport optimizerStep(const AdamW& options, int64_t& steps) override {
    AdamWReport report;
    need(cuda_.optimizerStep(model_, &options, &steps, &report, &failure_));
    return report;
  }

 private:
  void need(bool fine) const {
    if (!fine) raise(failure_);
  }

  const PrimerlCuda& cuda_;
  PrimerlCudaModel* model_ = nullptr;
  PrimerlFailure failure_{};
};

}  // namespace

CudaReport cudaReport() {
  CudaReport report;
  const PrimerlCuda* cuda = load(report);
  if (cuda == nullptr) return report;
  PrimerlFailure failure{};
  PrimerlCudaDevice list[16];
  int count = 0;
  if (!cuda->devices(list, 16, &count, &failure)) {
    report.reason = failure.message;
    return report;
  }
  for (int i = 0; i < count; i++) {
    report.devices.push_back(
        {list[i].name, std::to_string(list[i].major) + "." + std::to_string(list[i].minor), list[i].bytes});
  }
  if (count == 0) {
    report.reason = "the driver has no CUDA device";
    return report;
  }
  if (list[0].major < 8) {
    report.reason = "the device is older than compute capability 8.0";
    return report;
  }
  PrimerlCublas cublas{};
  if (cuda->cublas(0, &cublas, &failure)) {
    report.cublas = cublas.text;
    report.cublasVersion = cublas.version;
  } else {
    report.cublas = failure.message;
  }
  return report;
}

std::unique_ptr<DeviceModel> openCudaModel(const ModelConfig& config, const DeviceModelOptions& options) {
  CudaReport report = cudaReport();
  const PrimerlCuda* cuda = report.reason.empty() ? load(report) : nullptr;
  if (cuda == nullptr) throw Error("ERR_DEVICE", "The model cannot run on CUDA: " + report.reason + ".");
  return std::make_unique<LibraryModel>(*cuda, config, options);
}

}  // namespace primerl
