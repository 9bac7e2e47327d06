// Products of every instruction set against sums in double, and the promise that a row's bits do not depend on others.
#include "primerl/gemm.h"

#include "expect.h"

using namespace primerl;

namespace {

struct Shape {
  int64_t M, N, K;
};

const Shape shapes[] = {{1, 1, 1},    {1, 33, 7},    {3, 16, 17},   {14, 32, 64},  {15, 131, 112}, {29, 48, 300},
                        {100, 7, 33}, {64, 257, 18}, {2, 2100, 40}, {5, 40, 1000}, {4200, 17, 9},  {33, 1, 513}};

template <class T>
void againstDouble(Isa isa, double limit) {
  Pool pool(2);
  const Compute compute{pool, isa};
  check::Random random(1);
  for (const Shape& s : shapes) {
    for (int kind = 0; kind < 8; kind++) {
      const bool flipA = kind & 1, flipB = kind & 2, accumulate = kind & 4;
      const std::vector<T> a = random.normals<T>(size_t(s.M * s.K)), b = random.normals<T>(size_t(s.K * s.N));
      const int64_t ldc = s.N + 3;
      std::vector<T> c = random.normals<T>(size_t(s.M * ldc));
      std::vector<double> expected(c.begin(), c.end());
      const View<T> left = flipA ? transposed(a.data(), s.M) : rows(a.data(), s.K);
      const View<T> right = flipB ? transposed(b.data(), s.K) : rows(b.data(), s.N);
      for (int64_t i = 0; i < s.M; i++) {
        for (int64_t j = 0; j < s.N; j++) {
          double sum = accumulate ? expected[size_t(i * ldc + j)] : 0;
          for (int64_t k = 0; k < s.K; k++) {
            sum += double(left.data[i * left.rowStride + k * left.columnStride]) *
                   double(right.data[k * right.rowStride + j * right.columnStride]);
          }
          expected[size_t(i * ldc + j)] = sum;
        }
      }
      std::vector<T> packedResult = c;
      gemm(compute, s.M, s.N, s.K, left, right, c.data(), ldc, accumulate);
      const std::string name = std::string(isaName(isa)) + " " + std::to_string(s.M) + "x" + std::to_string(s.N) + "x" +
                               std::to_string(s.K) + " kind " + std::to_string(kind);
      check::below(check::relative(c, expected), limit, name);
      PackedMatrix<T> packed;
      packed.pack(compute, s.K, s.N, right);
      gemm(compute, s.M, left, packed, packedResult.data(), ldc, accumulate);
      check::that(check::sameBits(c, packedResult), name + ": packed before gives the same bits");
    }
  }
}

void rowsAreAlone(Isa isa) {
  Pool one(1), three(3);
  const Compute single{one, isa}, several{three, isa};
  check::Random random(2);
  const int64_t M = 61, N = 131, K = 700;
  const std::vector<float> a = random.normals<float>(size_t(M * K)), b = random.normals<float>(size_t(N * K));
  std::vector<float> all(size_t(M * N)), again(size_t(M * N));
  gemm(single, M, N, K, rows(a.data(), K), transposed(b.data(), K), all.data(), N, false);
  gemm(several, M, N, K, rows(a.data(), K), transposed(b.data(), K), again.data(), N, false);
  check::that(check::sameBits(all, again), std::string(isaName(isa)) + ": threads do not change a bit");
  for (int64_t count = 1; count <= 17; count++) {
    const int64_t from = (count * 7) % (M - count);
    std::vector<float> some(size_t(count * N));
    gemm(several, count, N, K, rows(a.data() + from * K, K), transposed(b.data(), K), some.data(), N, false);
    const std::vector<float> part(all.begin() + from * N, all.begin() + (from + count) * N);
    check::that(check::sameBits(some, part), std::string(isaName(isa)) + ": rows have the same bits alone");
  }
  // columns too: a narrower right operand
  std::vector<float> narrow(size_t(M * 5));
  gemm(single, M, 5, K, rows(a.data(), K), transposed(b.data() + 40 * K, K), narrow.data(), 5, false);
  bool same = true;
  for (int64_t i = 0; i < M; i++) {
    same = same && std::memcmp(&narrow[size_t(i * 5)], &all[size_t(i * N + 40)], 5 * sizeof(float)) == 0;
  }
  check::that(same, std::string(isaName(isa)) + ": columns have the same bits alone");
}

}  // namespace

int main() {
  againstDouble<double>(Isa::scalar, 3e-15);
  for (const Isa isa : check::isas()) {
    againstDouble<float>(isa, 3e-7);
    rowsAreAlone(isa);
  }
  check::that(supportsIsa(detectIsa()), "the detected instruction set runs");
  check::that(parseIsa("scalar") == Isa::scalar, "an instruction set by name");
  check::throws("ERR_CONFIG", [] { parseIsa("mmx"); }, "an unknown instruction set");
  std::printf("runs %s, amx %s\n", isaName(detectIsa()), hasAmx() ? "present" : "absent");
  return check::close("gemm");
}
