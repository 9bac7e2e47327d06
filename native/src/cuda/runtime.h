// Devices, their memory, and the copies in and out of it. Copies and fills are in the order of the context's stream; those
// that touch the host's memory have ended when they return. What a device refuses is an Error with code ERR_DEVICE.
#pragma once

#include <vector>

#include "cuda/target.h"

namespace primerl::cuda {

struct DeviceInfo {
  std::string name;
  /** compute capability */
  int major = 0;
  int minor = 0;
  int64_t bytes = 0;
};

/** Throws when the driver cannot be asked; an empty list says that there is no device. */
std::vector<DeviceInfo> devices();

/** All that this thread does next is on this device. */
void activate(int device);
void* openStream();
void closeStream(void* stream) noexcept;

/** Throws ERR_OUT_OF_MEMORY, saying how much was asked for and how much is free. */
void* allocate(size_t bytes);
void release(void* memory) noexcept;
void copyToDevice(const Context& context, void* to, const void* from, size_t bytes);
void copyToHost(const Context& context, void* to, const void* from, size_t bytes);
void copyOnDevice(const Context& context, void* to, const void* from, size_t bytes);
void fillZero(const Context& context, void* memory, size_t bytes);

/** Memory on the device that only grows; its content is undefined after `need`. */
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }

  T* need(int64_t count) {
    if (count > size_) {
      release(data_);
      data_ = nullptr;
      size_ = 0;
      data_ = static_cast<T*>(allocate(static_cast<size_t>(count) * sizeof(T)));
      size_ = count;
    }
    return data_;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }

  /** The list, in memory that holds at least one element. */
  T* fill(const Context& context, const T* values, int64_t count) {
    T* to = need(count > 0 ? count : 1);
    copyToDevice(context, to, values, static_cast<size_t>(count) * sizeof(T));
    return to;
  }
  T* fill(const Context& context, const std::vector<T>& values) {
    return fill(context, values.data(), static_cast<int64_t>(values.size()));
  }

  std::vector<T> toHost(const Context& context, int64_t count) const {
    std::vector<T> values(static_cast<size_t>(count));
    copyToHost(context, values.data(), data_, static_cast<size_t>(count) * sizeof(T));
    return values;
  }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace primerl::cuda
