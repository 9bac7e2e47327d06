// The emulated device. Its memory is the host's own and begins as bytes of 0xff, which no kernel takes for its work.
#include <cstdlib>
#include <cstring>

#include "cuda/runtime.h"

namespace primerl::cuda {

std::vector<DeviceInfo> devices() { return {{"emulated device", 9, 0, 0}}; }
void activate(int) {}
void* openStream() { return nullptr; }
void closeStream(void*) noexcept {}

void* allocate(size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw Error("ERR_OUT_OF_MEMORY", "no " + std::to_string(bytes) + " bytes of memory are left");
  std::memset(memory, 0xff, bytes);
  return memory;
}

void release(void* memory) noexcept { std::free(memory); }
void copyToDevice(const Context&, void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void copyToHost(const Context&, void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void copyOnDevice(const Context&, void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void fillZero(const Context&, void* memory, size_t bytes) { std::memset(memory, 0, bytes); }

}  // namespace primerl::cuda
