// What this machine can do at most: multiplications and additions per second of the product kernel on operands in the
// first cache, and bytes per second read from memory. ceiling THREADS PRECISION
#include <vector>

#include "../src/cpu/product.h"
#include "measure.h"

using namespace primerl;

namespace {

double productRate(const Compute& compute) {
  const ProductKernel<float>& kernel = productKernel<float>(compute);
  const int64_t K = 128, times = 4000;
  const int rows = kernel.tileRows, columns = kernel.tileColumns;
  const measure::Spent spent = measure::timed([&] {
    compute.pool.parallelFor(compute.pool.threads(), [&](int64_t, int64_t) {
      Buffer<char> left, right;
      Buffer<float> out;
      const std::vector<float> ones(static_cast<size_t>(K * 64), 1.0f);
      kernel.packLeft(rows, K, primerl::rows(ones.data(), K), left.need(kernel.leftBytes(rows, K)));
      kernel.packRight(columns, K, primerl::transposed(ones.data(), K), right.need(kernel.rightBytes(K)));
      out.need(rows * columns);
      for (int64_t i = 0; i < times; i++) {
        kernel.tile(rows, columns, K, left.data(), right.data(), out.data(), columns, false);
      }
    });
  });
  return 2.0 * double(rows * columns * K * times) * double(compute.pool.threads()) / spent.wall;
}

double readRate(const Compute& compute, const std::vector<double>& memory) {
  std::vector<double> sums(static_cast<size_t>(compute.pool.threads()) * 8);
  const measure::Spent spent = measure::timed([&] {
    compute.pool.parallelFor(static_cast<int64_t>(memory.size()), [&](int64_t begin, int64_t end) {
      double lanes[8] = {};
      for (int64_t i = begin; i + 8 <= end; i += 8) {
        for (int lane = 0; lane < 8; lane++) lanes[lane] += memory[static_cast<size_t>(i + lane)];
      }
      sums[begin == 0 ? 0 : 8] += lanes[0] + lanes[1] + lanes[2] + lanes[3] + lanes[4] + lanes[5] + lanes[6] + lanes[7];
    });
  });
  return double(memory.size() * sizeof(double)) / spent.wall;
}

}  // namespace

int main(int count, char** args) {
  if (count != 3) {
    std::fprintf(stderr, "ceiling THREADS PRECISION\n");
    return 2;
  }
  Pool pool(std::atoi(args[1]));
  const Compute compute{pool, detectIsa(), nullptr, measure::precisionOf(args[2])};
  const std::vector<double> memory(std::size_t(1) << 25, 1.0);
  double products = 0, reads = 0;
  for (int round = 0; round < 10; round++) {
    products = std::max(products, productRate(compute));
    reads = std::max(reads, readRate(compute, memory));
  }
  std::printf("{\"kernel\":\"%s\",\"flops\":%.6g,\"bytes\":%.6g}\n", productKernel<float>(compute).name, products, reads);
}
