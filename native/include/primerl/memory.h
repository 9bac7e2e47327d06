// Large memory comes in large pages where the system has them: fewer of them are to be found and filled.
#pragma once

#include <cstddef>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace primerl {

constexpr std::size_t cacheLine = 64;
constexpr std::size_t largePage = std::size_t(1) << 21;

/** Aligned to a cache line at least. */
inline void* allocate(std::size_t bytes) {
  if (bytes < 2 * largePage) return ::operator new(bytes, std::align_val_t(cacheLine));
  void* memory = ::operator new(bytes, std::align_val_t(largePage));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  madvise(memory, bytes / largePage * largePage, MADV_HUGEPAGE);
#endif
  return memory;
}

inline void release(void* memory, std::size_t bytes) noexcept {
  if (memory != nullptr) ::operator delete(memory, std::align_val_t(bytes < 2 * largePage ? cacheLine : largePage));
}

/** For containers of the standard library. */
template <class T>
struct LargeAllocator {
  using value_type = T;

  LargeAllocator() = default;
  template <class Other>
  LargeAllocator(const LargeAllocator<Other>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(primerl::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { primerl::release(memory, count * sizeof(T)); }

  template <class Other>
  bool operator==(const LargeAllocator<Other>&) const { return true; }
  template <class Other>
  bool operator!=(const LargeAllocator<Other>&) const { return false; }
};

}  // namespace primerl
