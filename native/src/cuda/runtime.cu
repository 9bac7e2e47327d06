#include "cuda/runtime.h"

namespace primerl::cuda {

namespace {

void need(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Error("ERR_DEVICE", std::string(what) + " failed on the CUDA device: " + cudaGetErrorString(error));
}

cudaStream_t streamOf(const Context& context) { return static_cast<cudaStream_t>(context.stream); }

void copy(const Context& context, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  need(cudaMemcpyAsync(to, from, bytes, kind, streamOf(context)), "a copy");
  if (kind != cudaMemcpyDeviceToDevice) need(cudaStreamSynchronize(streamOf(context)), "a computation or a copy");
}

}  // namespace

std::vector<DeviceInfo> devices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) return {};
  need(error, "counting devices");
  std::vector<DeviceInfo> list;
  for (int i = 0; i < count; i++) {
    cudaDeviceProp properties;
    need(cudaGetDeviceProperties(&properties, i), "asking for a device's properties");
    list.push_back({properties.name, properties.major, properties.minor,
                    static_cast<int64_t>(properties.totalGlobalMem)});
  }
  return list;
}

void activate(int device) { need(cudaSetDevice(device), "choosing a device"); }

void* openStream() {
  cudaStream_t stream = nullptr;
  need(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return stream;
}

void closeStream(void* stream) noexcept { cudaStreamDestroy(static_cast<cudaStream_t>(stream)); }

void* allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes == 0 ? 1 : bytes);
  if (error == cudaSuccess) return memory;
  cudaGetLastError();  // the next call shall not report it again
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  throw Error("ERR_OUT_OF_MEMORY", std::to_string(bytes >> 20) + " MiB of the CUDA device's memory were asked for, " +
                                       std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                                       " MiB are free: " + cudaGetErrorString(error));
}

void release(void* memory) noexcept {
  if (memory != nullptr) cudaFree(memory);
}

void copyToDevice(const Context& context, void* to, const void* from, size_t bytes) {
  copy(context, to, from, bytes, cudaMemcpyHostToDevice);
}

void copyToHost(const Context& context, void* to, const void* from, size_t bytes) {
  copy(context, to, from, bytes, cudaMemcpyDeviceToHost);
}

void copyOnDevice(const Context& context, void* to, const void* from, size_t bytes) {
  copy(context, to, from, bytes, cudaMemcpyDeviceToDevice);
}

void fillZero(const Context& context, void* memory, size_t bytes) {
  need(cudaMemsetAsync(memory, 0, bytes, streamOf(context)), "filling memory");
}

}  // namespace primerl::cuda
