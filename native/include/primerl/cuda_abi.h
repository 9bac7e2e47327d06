// What the CUDA library (primerl_cuda.so) offers to the engine: plain structures and functions. No exception crosses;
// a function that can fail returns false, or null, and fills a PrimerlFailure.
#pragma once

#include <cstdint>

#include "primerl/adamw.h"
#include "primerl/batch.h"
#include "primerl/cancel.h"
#include "primerl/config.h"
#include "primerl/device_model.h"
#include "primerl/loss.h"

extern "C" {

struct PrimerlFailure {
  char code[32];
  char message[480];
};

struct PrimerlCudaDevice {
  char name[128];
  int major, minor;
  int64_t bytes;
};

struct PrimerlCublas {
  /** 0: none was found, and `text` says why; else `text` is what was loaded */
  int version;
  char text[256];
};

/** A model on a device; made and freed by the library. */
struct PrimerlCudaModel;

/** The functions of primerl/device_model.h, with the model in front. */
struct PrimerlCuda {
  int abi;
  /** Writes at most `capacity` devices and their number. */
  bool (*devices)(PrimerlCudaDevice* list, int capacity, int* count, PrimerlFailure* failure);
  /** cuBLAS on this device */
  bool (*cublas)(int device, PrimerlCublas* found, PrimerlFailure* failure);
  PrimerlCudaModel* (*open)(const primerl::ModelConfig* config, const primerl::DeviceModelOptions* options,
                            int device, PrimerlFailure* failure);
  void (*close)(PrimerlCudaModel* model);
  bool (*writeWeights)(PrimerlCudaModel*, int64_t offset, int64_t count, const float* values, PrimerlFailure*);
  bool (*readWeights)(PrimerlCudaModel*, int64_t offset, int64_t count, float* into, PrimerlFailure*);
  bool (*readGradients)(PrimerlCudaModel*, int64_t offset, int64_t count, float* into, PrimerlFailure*);
  bool (*readMoments)(PrimerlCudaModel*, int64_t offset, int64_t count, float* first, float* second, PrimerlFailure*);
  bool (*writeMoments)(PrimerlCudaModel*, int64_t offset, int64_t count, const float* first, const float* second,
                       PrimerlFailure*);
  bool (*score)(PrimerlCudaModel*, const primerl::Tokens* tokens, const uint8_t* needed, float* logprobs,
                float* entropy, const primerl::Cancel* cancel, PrimerlFailure*);
  bool (*forward)(PrimerlCudaModel*, const primerl::Tokens* tokens, const uint8_t* needed, float* logprobs,
                  float* entropy, const primerl::Cancel* cancel, PrimerlFailure*);
  bool (*backward)(PrimerlCudaModel*, const float* gradient, const primerl::Cancel* cancel, PrimerlFailure*);
  bool (*forwardBackward)(PrimerlCudaModel*, const primerl::Batch* batch, const primerl::Counts* counts,
                          const primerl::LossSpec* loss, float* logprobs, float* entropy, primerl::LossSums* sums,
                          const primerl::Cancel* cancel, PrimerlFailure*);
  bool (*zeroGradients)(PrimerlCudaModel*, PrimerlFailure*);
  bool (*optimizerStep)(PrimerlCudaModel*, const primerl::AdamW* options, int64_t* steps, primerl::AdamWReport* report,
                        PrimerlFailure*);
};

/** The one function that the library exports. */
using PrimerlCudaEntry = const PrimerlCuda* (*)();
}

namespace primerl {

/** Of this header; the sizes of what crosses are part of it, as both sides are compiled from the same sources. */
constexpr int cudaAbi = 1'000'000 + int(sizeof(ModelConfig) + sizeof(Batch) + sizeof(LossSpec) + sizeof(AdamW) +
                                        sizeof(PrimerlCuda));

}  // namespace primerl
