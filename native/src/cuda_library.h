// Finds the CUDA library (primerl_cuda.so beside the addon) and opens models in it. Nothing of CUDA is linked: without
// the library, a driver or a device there is a reason in words, and the processor computes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "primerl/config.h"
#include "primerl/device_model.h"

namespace primerl {

struct CudaReport {
  /** why models cannot run on CUDA here; empty when they can */
  std::string reason;
  /** the library that was looked for, and whether it is there */
  std::string path;
  bool built = false;
  bool driver = false;
  struct Device {
    std::string name;
    std::string capability;
    int64_t bytes = 0;
  };
  std::vector<Device> devices;
  /** what was loaded, or why nothing was; our own kernel multiplies then */
  std::string cublas;
  int cublasVersion = 0;
};

/** What there is, asked anew at each call. $PRIMERL_CUDA_LIBRARY names another library, which needs no driver. */
CudaReport cudaReport();

/** On the first device. Throws ERR_DEVICE with the reason when there is none. */
std::unique_ptr<DeviceModel> openCudaModel(const ModelConfig& config, const DeviceModelOptions& options);

}  // namespace primerl
