// One matrix product: gemm M N K FORM THREADS PRECISION. FORM says how the operands lie: `forward` is x · wᵀ, `inputs` is
// dy · w, `weights` is dyᵀ · x, as in a linear map and its backward pass. Operands are float32 in every precision.
#include <vector>

#include "measure.h"
#include "primerl/gemm.h"

using namespace primerl;

int main(int count, char** args) {
  if (count != 7) {
    std::fprintf(stderr, "gemm M N K FORM THREADS PRECISION\n");
    return 2;
  }
  const int64_t M = std::atoll(args[1]), N = std::atoll(args[2]), K = std::atoll(args[3]);
  const std::string form = args[4];
  Pool pool(std::atoi(args[5]));
  const Compute compute{pool, detectIsa(), nullptr, measure::precisionOf(args[6])};
  const std::vector<float> left = measure::numbers(M * K, 1), right = measure::numbers(K * N, 1);
  std::vector<float> out(static_cast<size_t>(M * N));
  const View<float> a = form == "weights" ? transposed(left.data(), M) : rows(left.data(), K);
  const View<float> b = form == "forward" ? transposed(right.data(), K) : rows(right.data(), N);
  const auto once = [&] { gemm(compute, M, N, K, a, b, out.data(), N, false); };
  once();
  std::printf("{\"isa\":\"%s\"}\n", isaName(compute.isa));
  std::fflush(stdout);
  while (measure::asked()) measure::tell(measure::timed(once));
}
