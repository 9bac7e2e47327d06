// Every operation in double against central differences along random directions, in odd shapes.
#include "primerl/ops.h"

#include <array>

#include "expect.h"

using namespace primerl;
using Vec = std::vector<double>;

namespace {

/** One operand of an operation: its value and the gradient that the backward pass computed for it. */
struct Operand {
  const char* name;
  Vec* value;
  Vec* gradient;
};

/** d loss / d operand along a random direction against (loss(x + h d) - loss(x - h d)) / 2h. */
void slopes(const std::string& what, const std::function<double()>& loss, const std::vector<Operand>& operands) {
  check::Random random(77);
  for (const Operand& operand : operands) {
    const Vec start = *operand.value, direction = random.normals<double>(start.size());
    double expected = 0;
    for (size_t i = 0; i < start.size(); i++) expected += direction[i] * (*operand.gradient)[i];
    const double h = 1e-5;
    const auto at = [&](double step) {
      for (size_t i = 0; i < start.size(); i++) (*operand.value)[i] = start[i] + step * direction[i];
      return loss();
    };
    const double numeric = (at(h) - at(-h)) / (2 * h);
    *operand.value = start;
    check::below(std::abs(numeric - expected) / (1 + std::abs(expected)), 1e-7, what + " by " + operand.name);
  }
}

double dot(const Vec& a, const Vec& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += a[i] * b[i];
  return sum;
}

Pool pool(2);
const Compute compute{pool, Isa::scalar};

void linearSlopes(int64_t count, int64_t in, int64_t out) {
  check::Random random(1);
  Vec x = random.normals<double>(size_t(count * in)), w = random.normals<double>(size_t(out * in));
  Vec bias = random.normals<double>(size_t(out)), y(size_t(count * out));
  const Vec dy = random.normals<double>(y.size());
  Vec dx(x.size()), dw(w.size(), 0.0), dBias(bias.size(), 0.0);
  linearBackward(compute, count, in, out, x.data(), w.data(), dy.data(), dx.data(), false, dw.data(), dBias.data());
  slopes("linear", [&] {
    linear(compute, count, in, out, x.data(), w.data(), bias.data(), y.data());
    return dot(y, dy);
  }, {{"x", &x, &dx}, {"w", &w, &dw}, {"bias", &bias, &dBias}});
  const Vec twice = dw;
  linearBackward(compute, count, in, out, x.data(), w.data(), dy.data(), dx.data(), true, dw.data(), dBias.data());
  double worst = 0;
  for (size_t i = 0; i < dw.size(); i++) worst = std::max(worst, std::abs(dw[i] - 2 * twice[i]));
  check::below(worst, 1e-12, "parameter gradients are added to");
}

void normSlopes(int64_t count, int64_t width) {
  check::Random random(2);
  Vec x = random.normals<double>(size_t(count * width)), w = random.normals<double>(size_t(width));
  Vec y(x.size()), rstd(static_cast<size_t>(count)), dx(x.size()), dw(w.size(), 0.0);
  const Vec dy = random.normals<double>(x.size());
  const auto forward = [&] {
    rmsNorm(compute, count, width, x.data(), w.data(), 1e-3, y.data(), rstd.data());
    return dot(y, dy);
  };
  forward();
  rmsNormBackward(compute, count, width, x.data(), w.data(), rstd.data(), dy.data(), dx.data(), false, dw.data());
  slopes("rmsNorm", forward, {{"x", &x, &dx}, {"w", &w, &dw}});
  forward();
  Vec inPlace = dy, added = dx, again(w.size(), 0.0);
  rmsNormBackward(compute, count, width, x.data(), w.data(), rstd.data(), inPlace.data(), inPlace.data(), false,
                  again.data());
  check::that(check::sameBits(inPlace, dx), "rmsNorm backward in place");
  rmsNormBackward(compute, count, width, x.data(), w.data(), rstd.data(), dy.data(), added.data(), true, again.data());
  double worst = 0;
  for (size_t i = 0; i < dx.size(); i++) worst = std::max(worst, std::abs(added[i] - 2 * dx[i]));
  check::below(worst, 1e-12, "rmsNorm backward accumulates");
}

void swigluSlopes(int64_t count) {
  check::Random random(3);
  Vec gate = random.normals<double>(size_t(count), 3), up = random.normals<double>(size_t(count)), y(gate.size());
  const Vec dy = random.normals<double>(gate.size());
  Vec dGate = gate, dUp = up;
  swigluBackward(compute, count, dGate.data(), dUp.data(), dy.data());
  slopes("swiglu", [&] {
    swiglu(compute, count, gate.data(), up.data(), y.data());
    return dot(y, dy);
  }, {{"gate", &gate, &dGate}, {"up", &up, &dUp}});
}

ModelConfig ropeConfig(bool scaled) {
  ModelConfig config;
  config.headDim = 10;
  config.ropeTheta = 100;
  config.ropeScaling.enabled = scaled;
  config.ropeScaling.factor = 8;
  config.ropeScaling.originalMaxPositionEmbeddings = 64;
  return config;
}

void ropeSlopes(bool scaled) {
  check::Random random(4);
  RopeTable<double> table(ropeConfig(scaled));
  table.cover(50);
  const std::vector<int32_t> positions{0, 1, 49, 7};
  Vec x = random.normals<double>(4 * 3 * 10), y(x.size());
  const Vec dy = random.normals<double>(x.size());
  Vec dx = dy;
  rope(compute, 4, 3, positions.data(), table, dx.data(), true);
  slopes("rope", [&] {
    y = x;
    rope(compute, 4, 3, positions.data(), table, y.data(), false);
    return dot(y, dy);
  }, {{"x", &x, &dx}});
  y = x;
  rope(compute, 4, 3, positions.data(), table, y.data(), false);
  check::that(std::equal(x.begin(), x.begin() + 30, y.begin()), "position 0 is not rotated");
  // only the distance of two positions matters to their product
  Vec a = random.normals<double>(10), b = random.normals<double>(10);
  const auto product = [&](int32_t m, int32_t n) {
    Vec left = a, right = b;
    rope(compute, 1, 1, &m, table, left.data(), false);
    rope(compute, 1, 1, &n, table, right.data(), false);
    return dot(left, right);
  };
  check::below(std::abs(product(3, 11) - product(30, 38)), 1e-10, "rope is relative");
}

/** softmax(q kᵀ) v by its definition. */
Vec plainAttention(const AttentionShape& shape, const Positions& place, const Vec& q, const Vec& k, const Vec& v) {
  const size_t d = size_t(shape.headDim), heads = size_t(shape.heads), kvHeads = size_t(shape.kvHeads);
  Vec out(q.size(), 0.0);
  for (size_t s = 0; s + 1 < place.starts.size(); s++) {
    for (size_t t = size_t(place.starts[s]); t < size_t(place.starts[s + 1]); t++) {
      for (size_t h = 0; h < heads; h++) {
        const size_t kv = h / (heads / kvHeads);
        Vec weights;
        double sum = 0;
        for (size_t j = size_t(place.starts[s]); j <= t; j++) {
          double score = 0;
          for (size_t i = 0; i < d; i++) score += q[(t * heads + h) * d + i] * k[(j * kvHeads + kv) * d + i];
          weights.push_back(std::exp(score / std::sqrt(double(d))));
          sum += weights.back();
        }
        for (size_t j = 0; j < weights.size(); j++) {
          const size_t row = size_t(place.starts[s]) + j;
          for (size_t i = 0; i < d; i++) {
            out[(t * heads + h) * d + i] += weights[j] / sum * v[(row * kvHeads + kv) * d + i];
          }
        }
      }
    }
  }
  return out;
}

void attentionSlopes(const AttentionShape& shape, const std::vector<int32_t>& lengths) {
  check::Random random(5);
  Tokens tokens;
  tokens.sequences = int64_t(lengths.size());
  tokens.sequenceLengths = lengths.data();
  for (const int32_t length : lengths) tokens.tokens += length;
  const Positions place(tokens);
  const size_t queries = size_t(tokens.tokens * shape.heads * shape.headDim);
  const size_t keys = size_t(tokens.tokens * shape.kvHeads * shape.headDim);
  Vec q = random.normals<double>(queries), k = random.normals<double>(keys), v = random.normals<double>(keys);
  Vec out(queries), dq(queries), dk(keys), dv(keys);
  const Vec dOut = random.normals<double>(queries);
  const auto forward = [&] {
    attention(compute, shape, place, nullptr, q.data(), k.data(), v.data(), out.data());
    return dot(out, dOut);
  };
  forward();
  check::below(check::largestDifference(out, plainAttention(shape, place, q, k, v)), 1e-12, "attention");
  attentionBackward(compute, shape, place, nullptr, q.data(), k.data(), v.data(), out.data(), dOut.data(), dq.data(), dk.data(),
                    dv.data());
  slopes("attention", forward, {{"q", &q, &dq}, {"k", &k, &dk}, {"v", &v, &dv}});
}

void embeddingSlopes() {
  check::Random random(6);
  const std::vector<int32_t> ids{3, 0, 3, 6, 1};
  Vec table = random.normals<double>(7 * 9), y(5 * 9), dTable(table.size(), 0.0);
  const Vec dy = random.normals<double>(y.size());
  embeddingBackward(compute, 5, 9, ids.data(), dy.data(), dTable.data());
  slopes("embedding", [&] {
    embedding(compute, 5, 9, ids.data(), table.data(), y.data());
    return dot(y, dy);
  }, {{"table", &table, &dTable}});
}

void headSlopes(int64_t vocab, int64_t targetCount) {
  check::Random random(7);
  const HeadShape shape{11, vocab};
  HeadScratch<double> scratch;
  const int64_t rowCount = 40;
  Vec hidden = random.normals<double>(size_t(rowCount * 11)), w = random.normals<double>(size_t(vocab * 11));
  std::vector<Target> targets;
  for (int64_t i = 0; i < targetCount; i++) {
    targets.push_back({i % rowCount, random.below(int(vocab)), i % 3 == 0 ? 0.5f : 1.5f, i});
  }
  const Vec slope = random.normals<double>(size_t(targetCount));
  Vec entropies(slope.size()), dHidden(hidden.size(), 0.0), dw(w.size(), 0.0);
  double value = 0;
  const auto use = [&](int64_t i, HeadResult result) {
    value += slope[size_t(i)] * result.logprob;
    entropies[size_t(i)] = result.entropy;
    return slope[size_t(i)];
  };
  const auto forward = [&] {
    value = 0;
    head<double>(compute, shape, targets, hidden.data(), w.data(), use, nullptr, nullptr, scratch);
    return value;
  };
  head<double>(compute, shape, targets, hidden.data(), w.data(), use, dHidden.data(), dw.data(), scratch);
  slopes("head", forward, {{"hidden", &hidden, &dHidden}, {"w", &w, &dw}});
  forward();
  double worst = 0;
  for (const Target& target : targets) {
    Vec z;
    double sum = 0, entropy = 0;
    for (int64_t v = 0; v < vocab; v++) {
      double logit = 0;
      for (int64_t i = 0; i < 11; i++) logit += hidden[size_t(target.row * 11 + i)] * w[size_t(v * 11 + i)];
      z.push_back(logit / double(target.temperature));
      sum += std::exp(z.back());
    }
    for (const double logit : z) entropy -= std::exp(logit) / sum * (logit - std::log(sum));
    worst = std::max(worst, std::abs(entropy - entropies[size_t(target.token)]));
  }
  check::below(worst, 1e-10, "entropy");
}

/** TOK-01: the temperature divides logits before the softmax, not the log-probability after it. */
void temperatureComesFirst() {
  const Vec hidden{1}, w{2, 1, 0};
  HeadScratch<double> scratch;
  double logprob = 0;
  head<double>(compute, {1, 3}, {{0, 0, 0.5f, 0}}, hidden.data(), w.data(),
               [&](int64_t, HeadResult result) { return logprob = result.logprob; }, nullptr, nullptr, scratch);
  check::below(std::abs(logprob + 0.1429316), 1e-6, "TOK-01 temperature");
}

}  // namespace

int main() {
  for (const auto& [count, in, out] : {std::array<int64_t, 3>{1, 1, 1}, {7, 5, 3}, {33, 17, 40}}) {
    linearSlopes(count, in, out);
  }
  for (const auto& [count, width] : {std::array<int64_t, 2>{1, 1}, {5, 16}, {9, 37}}) normSlopes(count, width);
  for (const int64_t count : {1, 16, 55}) swigluSlopes(count);
  ropeSlopes(false);
  ropeSlopes(true);
  attentionSlopes({1, 1, 2}, {1});
  attentionSlopes({4, 1, 16}, {5, 1, 19});
  attentionSlopes({4, 4, 6}, {1, 1, 40, 3});
  attentionSlopes({6, 2, 10}, {61, 2});
  attentionSlopes({2, 1, 4}, {530});
  embeddingSlopes();
  headSlopes(13, 40);
  headSlopes(131, 90);
  headSlopes(7, 2500);
  temperatureComesFirst();
  return check::close("ops");
}
