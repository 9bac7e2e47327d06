// Scratch memory that only grows; its content is undefined after `need`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "primerl/memory.h"

namespace primerl {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr;
    other.size_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      release();
      data_ = other.data_;
      size_ = other.size_;
      other.data_ = nullptr;
      other.size_ = 0;
    }
    return *this;
  }

  /** At least `count` elements, aligned to a cache line. */
  T* need(int64_t count) {
    if (count > size_) {
      release();
      data_ = static_cast<T*>(primerl::allocate(static_cast<size_t>(count) * sizeof(T)));
      size_ = count;
    }
    return data_;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

  void release() {
    primerl::release(data_, static_cast<size_t>(size_) * sizeof(T));
    data_ = nullptr;
    size_ = 0;
  }

 private:
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace primerl
