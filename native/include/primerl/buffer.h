// Scratch memory that only grows; its content is undefined after `need`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

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
      data_ = static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), alignment));
      size_ = count;
    }
    return data_;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  int64_t size() const { return size_; }

  void release() {
    if (data_ != nullptr) ::operator delete(data_, alignment);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  static constexpr std::align_val_t alignment{64};
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace primerl
