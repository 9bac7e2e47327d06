// A model on a CUDA device.
#pragma once

#include <memory>

#include "cuda/target.h"
#include "primerl/device_model.h"

namespace primerl::cuda {

std::unique_ptr<DeviceModel> makeModel(const ModelConfig& config, const Context& context,
                                       const DeviceModelOptions& options);

}  // namespace primerl::cuda
