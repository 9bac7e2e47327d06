// Kernels of bfloat16 products: every one gives the product of the rounded operands, and AMX runs on emulated tiles too.
#include <algorithm>

#include "emulated_amx.h"
#include "expect.h"
#include "primerl/gemm.h"

using namespace primerl;

namespace {

float rounded(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/** One tile of every size, K odd and even, from both layouts, against sums in double of the rounded operands. */
void tiles(const ProductKernel<float>& kernel) {
  check::Random random(1);
  for (const int64_t K : {1, 2, 31, 32, 33, 64, 97}) {
    for (int rows = 1; rows <= kernel.tileRows; rows += rows < 3 ? 1 : 5) {
      for (int columns = 1; columns <= kernel.tileColumns; columns += columns < 17 ? 8 : 15) {
        for (const bool flipped : {false, true}) {
          const std::vector<float> a = random.normals<float>(size_t(rows * K)),
                                   b = random.normals<float>(size_t(columns * K));
          const View<float> left = flipped ? primerl::transposed(a.data(), rows) : primerl::rows(a.data(), K);
          const View<float> right = flipped ? primerl::rows(b.data(), columns) : primerl::transposed(b.data(), K);
          Buffer<char> leftPanel, rightPanel;
          kernel.packLeft(rows, K, left, leftPanel.need(kernel.leftBytes(rows, K)));
          kernel.packRight(columns, K, right, rightPanel.need(kernel.rightBytes(K)));
          const int64_t ldc = columns + 3;
          std::vector<float> c(size_t(rows * ldc), 2.0f);
          kernel.tile(rows, columns, K, leftPanel.data(), rightPanel.data(), c.data(), ldc, true);
          double worst = 0, outside = 0;
          for (int r = 0; r < rows; r++) {
            for (int n = 0; n < ldc; n++) {
              if (n >= columns) {
                outside = std::max(outside, std::abs(double(c[size_t(r * ldc + n)]) - 2));
                continue;
              }
              double sum = 2;
              for (int64_t k = 0; k < K; k++) {
                sum += double(rounded(left.data[r * left.rowStride + k * left.columnStride])) *
                       double(rounded(right.data[k * right.rowStride + n * right.columnStride]));
              }
              worst = std::max(worst, std::abs(sum - double(c[size_t(r * ldc + n)])));
            }
          }
          check::below(worst, 5e-5, std::string(kernel.name) + " product of rounded operands");
          check::that(outside == 0, std::string(kernel.name) + " leaves what is beside the tile");
        }
      }
    }
  }
}

/** Rows and columns of a product have the same bits alone and among others, in every precision. */
void bitsDoNotHangOnNeighbours(Isa isa, Precision precision, double limit) {
  Pool one(1), three(3);
  const Compute single{one, isa, nullptr, precision}, several{three, isa, nullptr, precision};
  check::Random random(2);
  const int64_t M = 61, N = 131, K = 1100;
  const std::vector<float> a = random.normals<float>(size_t(M * K)), b = random.normals<float>(size_t(N * K));
  std::vector<float> all(size_t(M * N)), again(size_t(M * N)), some(size_t(5 * N));
  gemm(single, M, N, K, rows(a.data(), K), transposed(b.data(), K), all.data(), N, false);
  PackedMatrix<float> packed;
  packed.pack(several, K, N, transposed(b.data(), K));
  gemm(several, M, rows(a.data(), K), packed, again.data(), N, false);
  const std::string name = productKernel<float>(single).name;
  check::that(check::sameBits(all, again), name + ": packed or not, threads or not, the same bits");
  gemm(single, 5, N, K, rows(a.data() + 20 * K, K), transposed(b.data(), K), some.data(), N, false);
  check::that(std::equal(some.begin(), some.end(), all.begin() + 20 * N), name + ": rows have the same bits alone");
  std::vector<double> exact(size_t(M * N), 0.0);
  for (int64_t i = 0; i < M; i++) {
    for (int64_t j = 0; j < N; j++) {
      for (int64_t k = 0; k < K; k++) exact[size_t(i * N + j)] += double(a[size_t(i * K + k)]) * double(b[size_t(j * K + k)]);
    }
  }
  check::below(check::relative(all, exact), limit, name + ": error of a product");
}

void extremes(const ProductKernel<float>& kernel) {
  const float values[] = {std::nanf(""), INFINITY, -INFINITY, 1e-30f, 3.3e38f, 1.00390625f};
  for (const float value : values) {
    const std::vector<float> a(2, value), b(2, 1.0f);
    Buffer<char> left, right;
    kernel.packLeft(1, 1, rows(a.data(), 1), left.need(kernel.leftBytes(1, 1)));
    kernel.packRight(1, 1, rows(b.data(), 1), right.need(kernel.rightBytes(1)));
    float c = 0;
    kernel.tile(1, 1, 1, left.data(), right.data(), &c, 1, false);
    const bool same = std::isnan(value) ? std::isnan(c) : std::isinf(value) ? c == value : c == rounded(value);
    check::that(same, std::string(kernel.name) + " keeps " + std::to_string(value));
  }
}

}  // namespace

int main() {
  const ProductKernel<float> amx = emulated::makeKernel("emulated amx");
  tiles(amx);
  extremes(amx);
  Pool pool(1);
  for (const Isa isa : check::isas()) {
    const ProductKernel<float>& kernel = productKernel<float>({pool, isa, nullptr, Precision::bfloat16});
    tiles(kernel);
    extremes(kernel);
    bitsDoNotHangOnNeighbours(isa, Precision::float32, 1e-6);
    bitsDoNotHangOnNeighbours(isa, Precision::bfloat16, 4e-3);
    bitsDoNotHangOnNeighbours(isa, Precision::bfloat16x3, 2e-5);
  }
  return check::close("product");
}
