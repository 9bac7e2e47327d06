// The CUDA library's one export: see primerl/cuda_abi.h.
#include <algorithm>
#include <cstring>
#include <memory>

#include "cuda/cublas.h"
#include "cuda/model.h"
#include "cuda/runtime.h"
#include "primerl/cuda_abi.h"

using namespace primerl;

/** A stream of a device, cuBLAS on it where there is one, and a model. */
struct PrimerlCudaModel {
  int device = 0;
  void* stream = nullptr;
  std::unique_ptr<cuda::Cublas> cublas;
  std::unique_ptr<DeviceModel> model;

  explicit PrimerlCudaModel(int index) : device(index) {
    cuda::activate(device);
    stream = cuda::openStream();
  }

  ~PrimerlCudaModel() {
    model.reset();
    cublas.reset();
    cuda::closeStream(stream);
  }
};

namespace {

template <size_t N>
void copyText(char (&to)[N], const std::string& text) {
  const size_t length = std::min(N - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

template <class Action>
bool guarded(PrimerlFailure* failure, Action action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    copyText(failure->code, error.code);
    copyText(failure->message, error.what());
  } catch (const std::exception& error) {
    copyText(failure->code, "ERR_DEVICE");
    copyText(failure->message, error.what());
  }
  return false;
}

/** Calls may come from any thread; the device is chosen anew in each. */
template <class Action>
bool on(PrimerlCudaModel* model, PrimerlFailure* failure, Action action) {
  return guarded(failure, [&] {
    cuda::activate(model->device);
    action(*model->model);
  });
}

bool listDevices(PrimerlCudaDevice* list, int capacity, int* count, PrimerlFailure* failure) {
  return guarded(failure, [&] {
    const std::vector<cuda::DeviceInfo> found = cuda::devices();
    *count = std::min(capacity, static_cast<int>(found.size()));
    for (int i = 0; i < *count; i++) {
      const cuda::DeviceInfo& info = found[static_cast<size_t>(i)];
      copyText(list[i].name, info.name);
      list[i].major = info.major;
      list[i].minor = info.minor;
      list[i].bytes = info.bytes;
    }
  });
}

bool findCublas(int device, PrimerlCublas* found, PrimerlFailure* failure) {
  return guarded(failure, [&] {
    const PrimerlCudaModel session(device);
    std::string reason;
    const std::unique_ptr<cuda::Cublas> library = cuda::Cublas::open(session.stream, reason);
    found->version = library == nullptr ? 0 : library->version();
    copyText(found->text, library == nullptr ? reason : library->path());
  });
}

PrimerlCudaModel* open(const ModelConfig* config, const DeviceModelOptions* options, int device,
                       PrimerlFailure* failure) {
  std::unique_ptr<PrimerlCudaModel> session;
  const bool fine = guarded(failure, [&] {
    session = std::make_unique<PrimerlCudaModel>(device);
    std::string reason;
    session->cublas = cuda::Cublas::open(session->stream, reason);
    session->model = cuda::makeModel(*config, {session->stream, session->cublas.get()}, *options);
  });
  return fine ? session.release() : nullptr;
}

void close(PrimerlCudaModel* model) {
  PrimerlFailure ignored;
  guarded(&ignored, [&] { cuda::activate(model->device); });
  delete model;
}

const PrimerlCuda table = {
    cudaAbi,
    listDevices,
    findCublas,
    open,
    close,
    [](PrimerlCudaModel* m, int64_t offset, int64_t count, const float* values, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.writeWeights(offset, count, values); });
    },
    [](PrimerlCudaModel* m, int64_t offset, int64_t count, float* into, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.readWeights(offset, count, into); });
    },
    [](PrimerlCudaModel* m, int64_t offset, int64_t count, float* into, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.readGradients(offset, count, into); });
    },
    [](PrimerlCudaModel* m, int64_t offset, int64_t count, float* first, float* second, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.readMoments(offset, count, first, second); });
    },
    [](PrimerlCudaModel* m, int64_t offset, int64_t count, const float* first, const float* second,
       PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.writeMoments(offset, count, first, second); });
    },
    [](PrimerlCudaModel* m, const Tokens* tokens, const uint8_t* needed, float* logprobs, float* entropy,
       const Cancel* cancel, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.score(*tokens, needed, logprobs, entropy, cancel); });
    },
    [](PrimerlCudaModel* m, const Tokens* tokens, const uint8_t* needed, float* logprobs, float* entropy,
       const Cancel* cancel, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.forward(*tokens, needed, logprobs, entropy, cancel); });
    },
    [](PrimerlCudaModel* m, const float* gradient, const Cancel* cancel, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.backward(gradient, cancel); });
    },
    [](PrimerlCudaModel* m, const Batch* batch, const Counts* counts, const LossSpec* loss, float* logprobs,
       float* entropy, LossSums* sums, const Cancel* cancel, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) {
        *sums = model.forwardBackward(*batch, *counts, *loss, logprobs, entropy, cancel);
      });
    },
    [](PrimerlCudaModel* m, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { model.zeroGradients(); });
    },
    [](PrimerlCudaModel* m, const AdamW* options, int64_t* steps, AdamWReport* report, PrimerlFailure* failure) {
      return on(m, failure, [&](DeviceModel& model) { *report = model.optimizerStep(*options, *steps); });
    },
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PrimerlCuda* primerlCuda() { return &table; }
