// K is cut into blocks at fixed places. Per block of K and of N both operands are packed once by all threads, then the
// threads take groups of tiles. Called from inside a task, all of it runs on that task's thread.
#include "primerl/gemm.h"

#include <algorithm>

#include "primerl/buffer.h"
#include "product.h"

namespace primerl {

namespace {

constexpr int64_t columnBlock = 2048;
constexpr int64_t rowBlock = 4096;

/** Below this many multiplications waking other threads costs more than it gains. */
constexpr int64_t serialWork = 1 << 18;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/** Part [k0, k0 + depth) of K; its panels begin `before` bytes times the number of panels into a packed operand. */
template <class T>
int64_t bytesBefore(const ProductKernel<T>& kernel, int64_t k0) {
  return k0 / kernel.depth * kernel.rightBytes(kernel.depth);
}

template <class T>
View<T> at(View<T> view, int64_t row, int64_t column) {
  return {view.data + row * view.rowStride + column * view.columnStride, view.rowStride, view.columnStride};
}

template <class T>
void packPanel(const ProductKernel<T>& kernel, int64_t N, View<T> b, int64_t k0, int64_t count, int64_t n0, char* out) {
  const int columns = static_cast<int>(std::min<int64_t>(kernel.tileColumns, N - n0));
  kernel.packRight(columns, count, at(b, k0, n0), out);
}

template <class T>
class Product {
 public:
  /** `b` is null when `packed` has it. */
  Product(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, const View<T>* b, const char* packed,
          T* c, int64_t ldc, bool accumulate)
      : compute_(compute), kernel_(productKernel<T>(compute)), M_(M), N_(N), K_(K), a_(a), b_(b), packed_(packed),
        c_(c), ldc_(ldc), accumulate_(accumulate), serial_(M * N * K < serialWork) {}

  void run() {
    const int64_t width = kernel_.tileColumns;
    const int64_t blockWidth = columnBlock / width * width;
    const int64_t blockHeight = rowBlock / kernel_.tileRows * kernel_.tileRows;
    for (int64_t n0 = 0; n0 < N_; n0 += blockWidth) {
      for (int64_t k0 = 0; k0 < K_; k0 += kernel_.depth) {
        bool rightPacked = b_ == nullptr;
        for (int64_t m0 = 0; m0 < M_; m0 += blockHeight) {
          block(m0, std::min(blockHeight, M_ - m0), n0, std::min(blockWidth, N_ - n0), k0,
                std::min(kernel_.depth, K_ - k0), rightPacked);
          rightPacked = true;
        }
      }
    }
  }

 private:
  void block(int64_t m0, int64_t m, int64_t n0, int64_t n, int64_t k0, int64_t k, bool rightPacked) {
    // of the calling thread; the tasks share them through the pointers
    static thread_local Buffer<char> leftBuffer, rightBuffer;
    const int64_t height = kernel_.tileRows, width = kernel_.tileColumns;
    const int64_t leftPanels = ceilDivide(m, height), rightPanels = ceilDivide(n, width);
    const int64_t leftBytes = kernel_.leftBytes(kernel_.tileRows, k), rightBytes = kernel_.rightBytes(k);
    char* left = leftBuffer.need(leftPanels * leftBytes);
    char* right = b_ == nullptr ? nullptr : rightBuffer.need(rightPanels * rightBytes);
    const int64_t packs = leftPanels + (rightPacked ? 0 : rightPanels);
    forEach(packs, ceilDivide(packs, 8 * compute_.pool.threads()), [&](int64_t index) {
      if (index < leftPanels) {
        const int64_t i = index * height;
        kernel_.packLeft(static_cast<int>(std::min(height, m - i)), k, at(a_, m0 + i, k0), left + index * leftBytes);
      } else {
        const int64_t panel = index - leftPanels;
        packPanel(kernel_, N_, *b_, k0, k, n0 + panel * width, right + panel * rightBytes);
      }
    });
    const char* panels = right;
    if (b_ == nullptr) {
      panels = packed_ + bytesBefore(kernel_, k0) * ceilDivide(N_, width) + n0 / width * rightBytes;
    }

    // a group of left panels stays in the second cache, one right panel in the first
    const int64_t leftGroup = 8;
    const int64_t rightGroup = leftPanels > leftGroup ? 8 : 2;
    const int64_t leftGroups = ceilDivide(leftPanels, leftGroup), rightGroups = ceilDivide(rightPanels, rightGroup);
    forEach(leftGroups * rightGroups, 1, [&](int64_t index) {
      const int64_t firstLeft = index / rightGroups * leftGroup, firstRight = index % rightGroups * rightGroup;
      const int64_t lastLeft = std::min(firstLeft + leftGroup, leftPanels);
      const int64_t lastRight = std::min(firstRight + rightGroup, rightPanels);
      for (int64_t q = firstRight; q < lastRight; q++) {
        const int columns = static_cast<int>(std::min(width, n - q * width));
        for (int64_t p = firstLeft; p < lastLeft; p++) {
          const int rows = static_cast<int>(std::min(height, m - p * height));
          kernel_.tile(rows, columns, k, left + p * leftBytes, panels + q * rightBytes,
                       c_ + (m0 + p * height) * ldc_ + n0 + q * width, ldc_, accumulate_ || k0 > 0);
        }
      }
    });
  }

  template <class F>
  void forEach(int64_t count, int64_t chunk, F f) {
    if (serial_) {
      for (int64_t i = 0; i < count; i++) f(i);
      return;
    }
    compute_.pool.parallelTasks(ceilDivide(count, chunk), [&](int64_t task) {
      const int64_t end = std::min(count, (task + 1) * chunk);
      for (int64_t i = task * chunk; i < end; i++) f(i);
    });
  }

  const Compute& compute_;
  const ProductKernel<T>& kernel_;
  const int64_t M_, N_, K_;
  const View<T> a_;
  const View<T>* const b_;
  const char* const packed_;
  T* const c_;
  const int64_t ldc_;
  const bool accumulate_;
  const bool serial_;
};

}  // namespace

template <class T>
void PackedMatrix<T>::pack(const Compute& compute, int64_t K, int64_t N, View<T> b) {
  const ProductKernel<T>& kernel = productKernel<T>(compute);
  const int64_t width = kernel.tileColumns, panels = ceilDivide(N, width);
  const int64_t blocks = ceilDivide(K, kernel.depth);
  depth_ = K;
  columns_ = N;
  const int64_t lastDepth = K - (blocks - 1) * kernel.depth;
  const int64_t bytes = K == 0 ? 0 : (bytesBefore(kernel, K - lastDepth) + kernel.rightBytes(lastDepth)) * panels;
  char* out = data_.need(bytes);
  compute.pool.parallelFor(blocks * panels, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; index++) {
      const int64_t k0 = index / panels * kernel.depth, panel = index % panels, k = std::min(kernel.depth, K - k0);
      packPanel(kernel, N, b, k0, k, panel * width,
                out + bytesBefore(kernel, k0) * panels + panel * kernel.rightBytes(k));
    }
  });
}

template <class T>
void gemm(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, View<T> b, T* c, int64_t ldc,
          bool accumulate) {
  if (K == 0 && !accumulate) {
    for (int64_t i = 0; i < M; i++) std::fill(c + i * ldc, c + i * ldc + N, T(0));
  }
  Product<T>(compute, M, N, K, a, &b, nullptr, c, ldc, accumulate).run();
}

template <class T>
void gemm(const Compute& compute, int64_t M, View<T> a, const PackedMatrix<T>& b, T* c, int64_t ldc, bool accumulate) {
  Product<T>(compute, M, b.columns(), b.depth(), a, nullptr, b.data(), c, ldc, accumulate).run();
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template void gemm<float>(const Compute&, int64_t, int64_t, int64_t, View<float>, View<float>, float*, int64_t, bool);
template void gemm<double>(const Compute&, int64_t, int64_t, int64_t, View<double>, View<double>, double*, int64_t,
                           bool);
template void gemm<float>(const Compute&, int64_t, View<float>, const PackedMatrix<float>&, float*, int64_t, bool);
template void gemm<double>(const Compute&, int64_t, View<double>, const PackedMatrix<double>&, double*, int64_t, bool);

}  // namespace primerl
