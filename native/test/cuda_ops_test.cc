// Every kernel against the processor's operation in double, in odd shapes and under every schedule. Inputs are numbers
// that the kernel's type has, so what is left is the error of its own sums and of its rounded results.
#include "cuda/attention.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/head.cuh"
#include "cuda/matmul.cuh"
#include "cuda/norm.cuh"
#include "cuda_test.h"
#include "primerl/gemm.h"
#include "primerl/ops.h"

using namespace primerl;
using cuda::DeviceBuffer;
using device::List;
using device::near;
using device::Results;
using Vec = std::vector<double>;

namespace {

cuda::Context context;
Pool pool(1);
const Compute compute{pool, Isa::scalar};

Vec plus(const Vec& a, const Vec& b) {
  Vec sum = a;
  for (size_t i = 0; i < a.size(); i++) sum[i] += b[i];
  return sum;
}

template <class T, class Out>
void matrices(int64_t M, int64_t N, int64_t K) {
  check::Random random(1);
  for (int form = 0; form < 4; form++) {
    const bool left = form & 1, right = form & 2, accumulate = form == 3;
    const Vec a = device::normals<T>(random, M * K), b = device::normals<T>(random, K * N);
    const Vec before = device::normals<Out>(random, M * N);
    Vec expected = accumulate ? before : Vec(before.size(), 0.0);
    for (int64_t i = 0; i < M; i++) {
      for (int64_t j = 0; j < N; j++) {
        for (int64_t k = 0; k < K; k++) {
          expected[size_t(i * N + j)] += a[size_t(left ? k * M + i : i * K + k)] * b[size_t(right ? j * K + k : k * N + j)];
        }
      }
    }
    const std::string what = "matmul " + std::to_string(form);
    const Results results = device::everySchedule(what, [&]() -> Results {
      List<T> onA(context, a), onB(context, b);
      List<Out> c(context, before);
      cuda::matmul(context, M, N, K, cuda::Operand<T>{onA.data(), left ? M : K, left},
                   cuda::Operand<T>{onB.data(), right ? K : N, right}, c.data(), accumulate);
      return {c.values()};
    });
    near<Out>(results[0], expected, what);
  }
}

/** The stream between layers is float, heads and their gradients are T. */
template <class T>
void norms(int64_t count, int64_t width) {
  check::Random random(2);
  const Vec x = device::normals<T>(random, count * width), w = device::normals<float>(random, width);
  const Vec dy = device::normals<T>(random, count * width), stream = device::normals<float>(random, count * width);
  Vec y(x.size()), rstd(size_t(count), 0), dx(x.size()), dw(w.size(), 0.0), added = stream;
  rmsNorm(compute, count, width, x.data(), w.data(), 1e-6, y.data(), rstd.data());
  rmsNormBackward(compute, count, width, x.data(), w.data(), rstd.data(), dy.data(), dx.data(), false, dw.data());
  const Results results = device::everySchedule("norm", [&]() -> Results {
    List<T> onX(context, x), onY(context, count * width), gradient(context, dy);
    List<float> onW(context, w), onRstd(context, count), onDw(context, Vec(w.size(), 0.0)), twice(context, w);
    List<float> floatX(context, x), floatDy(context, dy), onStream(context, stream);
    DeviceBuffer<float> scratch;
    cuda::rmsNorm(context, count, width, onX.data(), onW.data(), 1e-6, onY.data(), onRstd.data());
    cuda::rmsNormBackward(context, count, width, floatX.data(), onW.data(), onRstd.data(), floatDy.data(),
                          onStream.data(), true, scratch, twice.data());
    cuda::rmsNormBackward(context, count, width, onX.data(), onW.data(), onRstd.data(), gradient.data(),
                          gradient.data(), false, scratch, onDw.data());
    return {onY.values(), onRstd.values(), gradient.values(), onDw.values(), onStream.values(), twice.values()};
  });
  near<T>(results[0], y, "norm");
  near<float>(results[1], rstd, "1 / rms");
  // with one column the gradient is what rounding leaves
  if (width > 1) near<T>(results[2], dx, "norm by x");
  near<float>(results[3], dw, "norm by w");
  near<float>(results[4], plus(stream, dx), "norm by x, added");
  near<float>(results[5], plus(w, dw), "norm by w, added");
}

template <class T>
void elements(int64_t count) {
  check::Random random(3);
  const int64_t width = 7, rows = count;
  const Vec gate = device::normals<T>(random, rows * width, 3), up = device::normals<T>(random, rows * width);
  const Vec dy = device::normals<T>(random, rows * width), bias = device::normals<float>(random, width);
  Vec y(gate.size()), dGate = gate, dUp = up, biased = up, dBias(bias.size(), 0.0);
  swiglu(compute, rows * width, gate.data(), up.data(), y.data());
  swigluBackward(compute, rows * width, dGate.data(), dUp.data(), dy.data());
  addBias(compute, rows, width, bias.data(), biased.data());
  for (size_t i = 0; i < dy.size(); i++) dBias[i % size_t(width)] += dy[i];
  const Results results = device::everySchedule("elements", [&]() -> Results {
    List<T> onGate(context, gate), onUp(context, up), onY(context, rows * width), onDy(context, dy), onBiased(context, up);
    List<float> onBias(context, bias), onDBias(context, Vec(bias.size(), 0.0)), floats(context, dy);
    List<T> rounded(context, rows * width);
    DeviceBuffer<float> scratch;
    cuda::swiglu(context, rows * width, onGate.data(), onUp.data(), onY.data());
    cuda::swigluBackward(context, rows * width, onGate.data(), onUp.data(), onDy.data());
    cuda::addBias(context, rows, width, onBias.data(), onBiased.data());
    cuda::addBiasBackward(context, rows, width, onDy.data(), scratch, onDBias.data());
    cuda::convert(context, rows * width, floats.data(), rounded.data());
    return {onY.values(), onGate.values(), onUp.values(), onBiased.values(), onDBias.values(), rounded.values()};
  });
  near<T>(results[0], y, "swiglu");
  near<T>(results[1], dGate, "swiglu by gate");
  near<T>(results[2], dUp, "swiglu by up");
  near<T>(results[3], biased, "bias");
  near<float>(results[4], dBias, "bias by bias");
  near<T>(results[5], dy, "convert");
}

template <class T>
void rotations() {
  ModelConfig config;
  config.headDim = 10;
  config.ropeTheta = 500;
  config.ropeScaling = {true, 8, 1, 4, 64};
  RopeTable<double> table(config);
  RopeTable<float> floatTable(config);
  table.cover(140);
  floatTable.cover(140);
  const std::vector<int32_t> positions{0, 1, 139, 0, 77};
  check::Random random(4);
  const Vec x = device::normals<T>(random, 5 * 3 * 10);
  Vec turned = x, back = x;
  rope(compute, 5, 3, positions.data(), table, turned.data(), false);
  rope(compute, 5, 3, positions.data(), table, back.data(), true);
  const Results results = device::everySchedule("rope", [&]() -> Results {
    List<T> one(context, x), other(context, x);
    DeviceBuffer<float> cosines, sines;
    DeviceBuffer<int32_t> places;
    places.fill(context, positions);
    const cuda::RopeAngles angles{5, cosines.fill(context, floatTable.cosines(0), 140 * 5),
                                  sines.fill(context, floatTable.sines(0), 140 * 5)};
    cuda::rope(context, 5, 3, places.data(), angles, one.data(), false);
    cuda::rope(context, 5, 3, places.data(), angles, other.data(), true);
    return {one.values(), other.values()};
  });
  near<T>(results[0], turned, "rope");
  near<T>(results[1], back, "rope back");
}

void embeddings() {
  check::Random random(5);
  const std::vector<int32_t> ids{3, 0, 3, 6, 1, 3}, rows{0, 1, 3, 6}, starts{0, 1, 2, 5, 6}, order{1, 4, 0, 2, 5, 3};
  const Vec table = device::normals<float>(random, 7 * 9), dy = device::normals<float>(random, 6 * 9);
  Vec y(6 * 9), dTable = table;
  embedding(compute, 6, 9, ids.data(), table.data(), y.data());
  embeddingBackward(compute, 6, 9, ids.data(), dy.data(), dTable.data());
  const Results results = device::everySchedule("embedding", [&]() -> Results {
    List<float> onTable(context, table), onY(context, 6 * 9), onDy(context, dy), gradient(context, table);
    DeviceBuffer<int32_t> onIds, onRows, onStarts, onOrder;
    cuda::gather(context, 6, 9, onIds.fill(context, ids), onTable.data(), onY.data());
    const cuda::ScatterPlan plan{4, onRows.fill(context, rows), onStarts.fill(context, starts), onOrder.fill(context, order)};
    cuda::scatterAdd(context, plan, 9, onDy.data(), gradient.data());
    return {onY.values(), gradient.values()};
  });
  near<float>(results[0], y, "embedding");
  near<float>(results[1], dTable, "embedding by table");
}

template <class T>
void attentions(const AttentionShape& shape, const std::vector<int32_t>& lengths) {
  check::Random random(6);
  std::vector<cuda::AttentionBlock> tiles;
  Tokens tokens;
  tokens.sequences = int64_t(lengths.size());
  tokens.sequenceLengths = lengths.data();
  const Positions place(tokens);
  const int64_t count = place.starts.back();
  for (size_t s = 0; s < lengths.size(); s++) {
    for (int32_t begin = 0; begin < lengths[s]; begin += cuda::attentionTile) {
      tiles.push_back({int32_t(place.starts[s]), lengths[s], begin});
    }
  }
  const int64_t queries = count * shape.heads * shape.headDim, keys = count * shape.kvHeads * shape.headDim;
  const Vec q = device::normals<T>(random, queries), k = device::normals<T>(random, keys);
  const Vec v = device::normals<T>(random, keys), dOut = device::normals<T>(random, queries);
  Vec out(q.size()), dq(q.size()), dk(k.size()), dv(v.size());
  attention(compute, shape, place, nullptr, q.data(), k.data(), v.data(), out.data());
  attentionBackward(compute, shape, place, nullptr, q.data(), k.data(), v.data(), out.data(), dOut.data(), dq.data(), dk.data(),
                    dv.data());
  const cuda::AttentionSizes sizes{int(shape.heads), int(shape.kvHeads), int(shape.headDim)};
  const std::string what = "attention of " + std::to_string(shape.headDim);
  const Results results = device::everySchedule(what, [&]() -> Results {
    List<T> onQ(context, q), onK(context, k), onV(context, v), onOut(context, queries), onDOut(context, dOut);
    List<T> onDq(context, queries), onDk(context, keys), onDv(context, keys);
    List<float> logSums(context, count * shape.heads);
    DeviceBuffer<cuda::AttentionBlock> blocks;
    DeviceBuffer<float> scratch;
    const cuda::AttentionPlan plan{count, int64_t(tiles.size()), blocks.fill(context, tiles)};
    cuda::attention(context, sizes, plan, onQ.data(), onK.data(), onV.data(), onOut.data(), logSums.data());
    cuda::attentionBackward(context, sizes, plan, onQ.data(), onK.data(), onV.data(), onOut.data(), logSums.data(),
                            onDOut.data(), scratch, onDq.data(), onDk.data(), onDv.data());
    return {onOut.values(), onDq.values(), onDk.values(), onDv.values()};
  });
  near<T>(results[0], out, what);
  near<T>(results[1], dq, what + " by q");
  near<T>(results[2], dk, what + " by k");
  near<T>(results[3], dv, what + " by v");
}

template <class T>
void heads(int64_t width, int64_t vocab, int64_t count) {
  check::Random random(7);
  const int64_t rows = count + 3;
  const Vec hidden = device::normals<T>(random, rows * width), w = device::normals<T>(random, vocab * width, 0.7);
  const Vec slopes = device::normals<float>(random, count);
  std::vector<Target> targets;
  std::vector<cuda::HeadTarget> onHost;
  for (int64_t i = 0; i < count; i++) {
    const float temperature = i % 3 == 0 ? 0.5f : 1.5f;
    const int32_t id = i == 0 ? int32_t(vocab - 1) : random.below(int(vocab));
    targets.push_back({rows - 1 - i, id, temperature, i});
    onHost.push_back({int32_t(rows - 1 - i), id, int32_t(i), 1.0f / temperature});
  }
  Vec logprobs(slopes.size()), entropy(slopes.size()), dHidden(hidden.size(), 0.0), dw = w;
  primerl::HeadScratch<double> scratch;
  head<double>(
      compute, {width, vocab}, targets, hidden.data(), w.data(),
      [&](int64_t i, HeadResult result) {
        logprobs[size_t(i)] = result.logprob;
        entropy[size_t(i)] = result.entropy;
        return slopes[size_t(i)];
      },
      dHidden.data(), dw.data(), scratch);
  const std::string what = "head of " + std::to_string(vocab);
  const Results results = device::everySchedule(what, [&]() -> Results {
    List<T> onHidden(context, hidden), onW(context, w);
    List<float> onSlopes(context, slopes), onLogprobs(context, count), onEntropy(context, count);
    List<float> onDHidden(context, Vec(hidden.size(), 0.0)), onDw(context, w);
    DeviceBuffer<cuda::HeadTarget> onTargets;
    DeviceBuffer<cuda::HeadStats> stats;
    cuda::HeadScratch<T> onScratch;
    onTargets.fill(context, onHost);
    cuda::head(context, {width, vocab}, count, onTargets.data(), onHidden.data(), onW.data(), onScratch,
               stats.need(count), onLogprobs.data(), onEntropy.data());
    cuda::headBackward(context, {width, vocab}, count, onTargets.data(), onHidden.data(), onW.data(), onScratch,
                       stats.data(), onSlopes.data(), onDHidden.data(), onDw.data());
    return {onLogprobs.values(), onEntropy.values(), onDHidden.values(), onDw.values()};
  });
  // Logits are float32 in both types, only gradients of logits are rounded.
  check::below(check::largestDifference(results[0], logprobs), 2e-5, what + ": log-probabilities");
  check::below(check::largestDifference(results[1], entropy), 2e-5, what + ": entropy");
  near<T>(results[2], dHidden, what + " by hidden");
  near<T>(results[3], dw, what + " by w");
}

template <class T>
void everyOperation() {
  matrices<T, T>(1, 1, 1);
  matrices<T, float>(45, 67, 33);
  matrices<T, T>(130, 19, 70);
  norms<T>(1, 1);
  norms<T>(9, 37);
  norms<T>(300, 130);
  elements<T>(1);
  elements<T>(271);
  rotations<T>();
  attentions<T>({1, 1, 2}, {1});
  attentions<T>({4, 1, 16}, {5, 1, 19});
  attentions<T>({6, 2, 10}, {61, 2, 32, 33});
  attentions<T>({2, 1, 130}, {70});
  attentions<T>({4, 4, 80}, {40});
  heads<T>(11, 13, 40);
  heads<T>(5, cuda::headColumns + 9, 3);
  heads<T>(3, 7, cuda::headRows + 5);
}

}  // namespace

int main() {
  everyOperation<float>();
  everyOperation<cuda::bf16>();
  embeddings();
  return check::close("cuda operations");
}
