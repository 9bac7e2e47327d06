// K is cut into blocks at fixed places. Per block of K and of N both operands are packed once by all threads, then the
// threads take groups of tiles.
#include "primerl/gemm.h"

#include <algorithm>

#include "primerl/buffer.h"
#include "kernels.h"

namespace primerl {

namespace {

constexpr int64_t depthBlock = 256;
constexpr int64_t columnBlock = 2048;
constexpr int64_t rowBlock = 4096;

/** Below this many multiplications waking other threads costs more than it gains. */
constexpr int64_t serialWork = 1 << 18;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class T>
struct RightOperand {
  /** null: already packed */
  const View<T>* view;
  const T* packed;
};

/** Panel `index` of a packed right operand begins at index * depth * tileColumns. */
template <class T>
void packPanel(const Kernels<T>& kernel, int64_t depth, int64_t N, View<T> b, int64_t k0, int64_t count, int64_t panel,
               T* out) {
  const int64_t width = kernel.tileColumns, n0 = panel * width;
  const int columns = static_cast<int>(std::min(width, N - n0));
  kernel.packColumns(columns, static_cast<int>(width), count, b.data + k0 * b.rowStride + n0 * b.columnStride,
                     b.rowStride, b.columnStride, out + panel * depth * width);
}

template <class T>
class Product {
 public:
  Product(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, RightOperand<T> b, T* c, int64_t ldc,
          bool accumulate)
      : compute_(compute), kernel_(kernels<T>(compute.isa)), M_(M), N_(N), K_(K), a_(a), b_(b), c_(c), ldc_(ldc),
        accumulate_(accumulate), serial_(M * N * K < serialWork) {}

  void run() {
    const int64_t width = kernel_.tileColumns;
    const int64_t blockWidth = columnBlock / width * width;
    const int64_t blockHeight = rowBlock / kernel_.tileRows * kernel_.tileRows;
    for (int64_t n0 = 0; n0 < N_; n0 += blockWidth) {
      for (int64_t k0 = 0; k0 < K_; k0 += depthBlock) {
        bool rightPacked = b_.view == nullptr;
        for (int64_t m0 = 0; m0 < M_; m0 += blockHeight) {
          block(m0, std::min(blockHeight, M_ - m0), n0, std::min(blockWidth, N_ - n0), k0,
                std::min(depthBlock, K_ - k0), rightPacked);
          rightPacked = true;
        }
      }
    }
  }

 private:
  void block(int64_t m0, int64_t m, int64_t n0, int64_t n, int64_t k0, int64_t k, bool rightPacked) {
    // of the calling thread; the tasks share them through the pointers
    static thread_local Buffer<T> leftBuffer, rightBuffer;
    const int64_t height = kernel_.tileRows, width = kernel_.tileColumns;
    const int64_t leftPanels = ceilDivide(m, height), rightPanels = ceilDivide(n, width);
    T* left = leftBuffer.need(m * k);
    T* right = b_.view == nullptr ? nullptr : rightBuffer.need(rightPanels * width * k);
    const int64_t packs = leftPanels + (rightPacked ? 0 : rightPanels);
    forEach(packs, ceilDivide(packs, 8 * compute_.pool.threads()), [&](int64_t index) {
      if (index < leftPanels) {
        const int64_t i = index * height;
        kernel_.packRows(static_cast<int>(std::min(height, m - i)), k,
                         a_.data + (m0 + i) * a_.rowStride + k0 * a_.columnStride, a_.rowStride, a_.columnStride,
                         left + i * k);
      } else {
        const View<T> shifted{b_.view->data + n0 * b_.view->columnStride, b_.view->rowStride, b_.view->columnStride};
        packPanel(kernel_, k, n, shifted, k0, k, index - leftPanels, right);
      }
    });

    // a group of left panels stays in the second cache, one right panel in the first
    const int64_t leftGroup = 8;
    const int64_t rightGroup = leftPanels > leftGroup ? 8 : 2;
    const int64_t leftGroups = ceilDivide(leftPanels, leftGroup), rightGroups = ceilDivide(rightPanels, rightGroup);
    forEach(leftGroups * rightGroups, 1, [&](int64_t index) {
      const int64_t firstLeft = index / rightGroups * leftGroup, firstRight = index % rightGroups * rightGroup;
      const int64_t lastLeft = std::min(firstLeft + leftGroup, leftPanels);
      const int64_t lastRight = std::min(firstRight + rightGroup, rightPanels);
      for (int64_t q = firstRight; q < lastRight; q++) {
        const T* panel = b_.view == nullptr ? b_.packed + (n0 / width + q) * K_ * width + k0 * width
                                            : right + q * k * width;
        const int columns = static_cast<int>(std::min(width, n - q * width));
        for (int64_t p = firstLeft; p < lastLeft; p++) {
          const int64_t rows = std::min(height, m - p * height);
          kernel_.tile(static_cast<int>(rows), columns, k, left + p * height * k, rows, panel, width,
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
  const Kernels<T>& kernel_;
  const int64_t M_, N_, K_;
  const View<T> a_;
  const RightOperand<T> b_;
  T* const c_;
  const int64_t ldc_;
  const bool accumulate_;
  const bool serial_;
};

template <class T>
void product(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, RightOperand<T> b, T* c, int64_t ldc,
             bool accumulate) {
  if (K == 0 && !accumulate) {
    for (int64_t i = 0; i < M; i++) std::fill(c + i * ldc, c + i * ldc + N, T(0));
  }
  Product<T>(compute, M, N, K, a, b, c, ldc, accumulate).run();
}

}  // namespace

template <class T>
void PackedMatrix<T>::pack(const Compute& compute, int64_t K, int64_t N, View<T> b) {
  const Kernels<T>& kernel = kernels<T>(compute.isa);
  const int64_t panels = ceilDivide(N, kernel.tileColumns);
  depth_ = K;
  columns_ = N;
  T* out = data_.need(panels * K * kernel.tileColumns);
  compute.pool.parallelFor(panels, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; panel++) packPanel(kernel, K, N, b, 0, K, panel, out);
  });
}

template <class T>
void gemm(const Compute& compute, int64_t M, int64_t N, int64_t K, View<T> a, View<T> b, T* c, int64_t ldc,
          bool accumulate) {
  product<T>(compute, M, N, K, a, {&b, nullptr}, c, ldc, accumulate);
}

template <class T>
void gemm(const Compute& compute, int64_t M, View<T> a, const PackedMatrix<T>& b, T* c, int64_t ldc, bool accumulate) {
  product<T>(compute, M, b.columns(), b.depth(), a, {nullptr, b.data()}, c, ldc, accumulate);
}

template class PackedMatrix<float>;
template class PackedMatrix<double>;
template void gemm<float>(const Compute&, int64_t, int64_t, int64_t, View<float>, View<float>, float*, int64_t, bool);
template void gemm<double>(const Compute&, int64_t, int64_t, int64_t, View<double>, View<double>, double*, int64_t,
                           bool);
template void gemm<float>(const Compute&, int64_t, View<float>, const PackedMatrix<float>&, float*, int64_t, bool);
template void gemm<double>(const Compute&, int64_t, View<double>, const PackedMatrix<double>&, double*, int64_t, bool);

}  // namespace primerl
