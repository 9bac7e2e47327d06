// Whole models: gradients by finite differences in double, float against double, and the invariances of packing,
// micro-batches and threads.
#include "primerl/model.h"

#include <limits>

#include "models.h"
#include "primerl/loss.h"

using namespace primerl;

namespace {

const Counts counts{20, 12, 9};

template <class T>
struct Run {
  std::vector<T> logprobs, entropy, gradients;
  LossSums sums;
};

struct Setting {
  int threads = 1;
  Isa isa = Isa::scalar;
  bool recompute = false;
  bool twoPhases = false;
  Precision precision = Precision::float32;
};

template <class T>
void add(Run<T>& run, Model<T>& model, const Compute& compute, const std::vector<T>& weights, const Batch& batch,
         bool twoPhases) {
  const size_t n = size_t(batch.tokens);
  const std::vector<uint8_t> needed = neededTokens(batch);
  std::vector<T> logprobs(n), entropy(n);
  if (twoPhases) {
    model.forward(compute, weights.data(), batch, needed.data(), logprobs.data(), entropy.data());
    std::vector<T> slopes(n, T(0));
    for (size_t t = 0; t < n; t++) {
      if (needed[t]) slopes[t] = T(tokenLoss(batch, {}, counts, int64_t(t), double(logprobs[t]), run.sums));
    }
    model.backward(compute, weights.data(), slopes.data(), run.gradients.data());
  } else {
    model.forwardBackward(
        compute, weights.data(), batch, needed.data(),
        [&](int64_t t, double logprob) { return tokenLoss(batch, {}, counts, t, logprob, run.sums); },
        run.gradients.data(), logprobs.data(), entropy.data());
  }
  run.logprobs.insert(run.logprobs.end(), logprobs.begin(), logprobs.end());
  run.entropy.insert(run.entropy.end(), entropy.begin(), entropy.end());
}

template <class T>
Run<T> train(const ModelConfig& config, const std::vector<models::Sample>& batches, const Setting& setting = {}) {
  Pool pool(setting.threads);
  const Compute compute{pool, setting.isa, nullptr, setting.precision, setting.precision};
  Model<T> model(config, {setting.recompute});
  const std::vector<T> weights = models::weights<T>(model.layout(), 8);
  Run<T> run;
  run.gradients.assign(size_t(model.layout().total()), T(0));
  for (const models::Sample& sample : batches) add(run, model, compute, weights, sample.batch(), setting.twoPhases);
  return run;
}

/** Slope of sum of a · logprob along a random direction of each tensor. */
void finiteDifferences(const models::Named& named) {
  Pool pool(2);
  const Compute compute{pool, Isa::scalar};
  Model<double> model(named.config);
  const Layout& layout = model.layout();
  const models::Sample sample(named.config, {1, 13, 1, 6}, 9);
  const Batch batch = sample.batch();
  const size_t n = size_t(batch.tokens);
  std::vector<double> weights = models::weights<double>(layout, 8), logprobs(n), entropy(n);
  std::vector<double> gradients(weights.size(), 0.0);
  check::Random random(10);
  std::vector<double> slope = random.normals<double>(n);
  for (size_t t = 0; t < n; t += 3) slope[t] = 0;
  model.forward(compute, weights.data(), batch, nullptr, logprobs.data(), entropy.data());
  model.backward(compute, weights.data(), slope.data(), gradients.data());
  const auto loss = [&] {
    model.score(compute, weights.data(), batch, logprobs.data(), entropy.data());
    double sum = 0;
    for (size_t t = 0; t < n; t++) sum += slope[t] * logprobs[t];
    return sum;
  };
  models::holdSlopes(layout.tensors(), weights, gradients, random, loss, named.name);
}

void floatAgainstDouble(const models::Named& named) {
  const models::Sample sample(named.config, {30, 1, 75, 2, 7}, 11);
  const Run<double> exact = train<double>(named.config, {sample});
  for (const Isa isa : check::isas()) {
    const std::string name = std::string(named.name) + " " + isaName(isa);
    Setting setting;
    setting.isa = isa;
    const Run<float> run = train<float>(named.config, {sample}, setting);
    check::below(check::largestDifference(run.logprobs, exact.logprobs), 1e-5, name + " logprobs");
    check::below(check::largestDifference(run.entropy, exact.entropy), 1e-5, name + " entropy");
    check::below(check::relative(run.gradients, exact.gradients), 1e-5, name + " gradients");
    setting.recompute = true;
    const Run<float> again = train<float>(named.config, {sample}, setting);
    check::that(check::sameBits(run.gradients, again.gradients), name + ": recomputing changes no bit");
    setting.recompute = false;
    setting.threads = 3;
    const Run<float> threaded = train<float>(named.config, {sample}, setting);
    check::that(check::sameBits(run.gradients, threaded.gradients) && check::sameBits(run.logprobs, threaded.logprobs),
                name + ": threads change no bit");
    setting.twoPhases = true;
    const Run<float> phases = train<float>(named.config, {sample}, setting);
    check::below(check::relative(phases.gradients, run.gradients), 1e-6, name + ": forward, then backward");
    check::that(check::sameBits(run.logprobs, phases.logprobs), name + ": same log-probabilities in both ways");
  }
}

/** Operands of products are rounded; what is not a product stays exact, so the deviation is that of the operands. */
void roundedAgainstDouble(const models::Named& named) {
  const models::Sample sample(named.config, {30, 1, 75, 2, 7}, 11);
  const Run<double> exact = train<double>(named.config, {sample});
  struct Limit {
    Precision precision;
    double logprob, gradient;
    const char* name;
  };
  for (const Limit& limit : {Limit{Precision::bfloat16, 0.15, 5e-2, " bfloat16"},
                             Limit{Precision::bfloat16x3, 1e-3, 5e-4, " three products"}}) {
    for (const Isa isa : check::isas()) {
      const std::string name = std::string(named.name) + " " + isaName(isa) + limit.name;
      Setting setting;
      setting.isa = isa;
      setting.precision = limit.precision;
      const Run<float> run = train<float>(named.config, {sample}, setting);
      check::below(check::largestDifference(run.logprobs, exact.logprobs), limit.logprob, name + " logprobs");
      check::below(check::relative(run.gradients, exact.gradients), limit.gradient, name + " gradients");
      setting.threads = 3;
      const Run<float> threaded = train<float>(named.config, {sample}, setting);
      check::that(check::sameBits(run.gradients, threaded.gradients), name + ": threads change no bit");
    }
  }
}

/** Rows of the last layer that nothing is predicted from are left out, and that changes nothing. */
void unneededRowsDoNotMatter(const models::Named& named) {
  Pool pool(2);
  const Compute compute{pool, Isa::scalar};
  const models::Sample sample(named.config, {30, 1, 75, 2, 7}, 21);
  const Batch batch = sample.batch();
  const size_t n = size_t(batch.tokens);
  Model<double> model(named.config);
  const std::vector<double> weights = models::weights<double>(model.layout(), 8);
  check::Random random(22);
  std::vector<double> slopes = random.normals<double>(n);
  std::vector<uint8_t> needed(n, 0);
  for (size_t t = 0; t < n; t++) {
    // a whole sequence without any, and the last token of the batch alone at its end
    needed[t] = t + 1 == n || (t < 80 && random.uniform() < 0.3) ? 1 : 0;
    if (!needed[t]) slopes[t] = 0;
  }
  const auto gradients = [&](const uint8_t* flags, std::vector<double>& logprobs) {
    std::vector<double> entropy(n), all(weights.size(), 0.0);
    logprobs.assign(n, 0.0);
    model.forward(compute, weights.data(), batch, flags, logprobs.data(), entropy.data());
    model.backward(compute, weights.data(), slopes.data(), all.data());
    return all;
  };
  std::vector<double> some, every;
  const std::vector<double> pruned = gradients(needed.data(), some), full = gradients(nullptr, every);
  check::below(check::relative(pruned, full), 1e-13, std::string(named.name) + ": gradients without unneeded rows");
  bool same = true;
  for (size_t t = 0; t < n; t++) same = same && some[t] == (needed[t] ? every[t] : 0.0);
  check::that(same, std::string(named.name) + ": the same log-probabilities without unneeded rows");
  std::vector<double> out(n), entropy(n), none(weights.size(), 0.0);
  const std::vector<uint8_t> nothing(n, 0);
  model.forward(compute, weights.data(), batch, nothing.data(), out.data(), entropy.data());
  model.backward(compute, weights.data(), out.data(), none.data());
  check::that(std::all_of(none.begin(), none.end(), [](double g) { return g == 0; }),
              std::string(named.name) + ": no needed row, no gradient");
  model.forward(compute, weights.data(), batch, nothing.data(), out.data(), entropy.data());
  check::throws("ERR_BATCH", [&] { model.backward(compute, weights.data(), slopes.data(), none.data()); },
                "a gradient of a token that was not asked for");
}

void packingDoesNotMatter(const models::Named& named) {
  const models::Sample sample(named.config, {12, 1, 33, 5, 2}, 12);
  const Run<double> whole = train<double>(named.config, {sample});
  const Run<double> halves = train<double>(named.config, {sample.part(0, 2), sample.part(2, 5)});
  std::vector<models::Sample> singles;
  for (size_t s = 0; s < 5; s++) singles.push_back(sample.part(s, s + 1));
  const Run<double> alone = train<double>(named.config, singles);
  for (const Run<double>* other : {&halves, &alone}) {
    check::that(check::sameBits(whole.logprobs, other->logprobs), std::string(named.name) + ": packed as unpacked");
    check::below(check::relative(other->gradients, whole.gradients), 1e-13,
                 std::string(named.name) + ": micro-batches add up to the batch");
    check::below(std::abs(other->sums.rl - whole.sums.rl) + std::abs(other->sums.ce - whole.sums.ce) +
                     std::abs(other->sums.refKl - whole.sums.refKl),
                 1e-12, std::string(named.name) + ": losses add up");
  }
  const Run<float> packed = train<float>(named.config, {sample}, {2, detectIsa(), false, false});
  const Run<float> unpacked = train<float>(named.config, singles, {1, detectIsa(), false, false});
  check::that(check::sameBits(packed.logprobs, unpacked.logprobs), std::string(named.name) + ": the same bits packed");
}

/** PACK-03: an earlier sample of the pack cannot be seen by a later one. */
void neighboursAreInvisible() {
  const ModelConfig config = models::base();
  models::Sample first(config, {9, 14}, 13), second = first;
  for (size_t i = 0; i < 9; i++) second.ids[i] = (first.ids[i] + 7) % int32_t(config.vocabSize);
  const Run<float> a = train<float>(config, {first}), b = train<float>(config, {second});
  check::that(std::equal(a.logprobs.begin() + 9, a.logprobs.end(), b.logprobs.begin() + 9),
              "PACK-03 a neighbour changes nothing");
}

void lateTokensAreInvisible() {
  const ModelConfig config = models::base();
  models::Sample first(config, {25}, 14), second = first;
  second.ids[20] = (first.ids[20] + 1) % int32_t(config.vocabSize);
  const Run<float> a = train<float>(config, {first}), b = train<float>(config, {second});
  check::that(std::equal(a.logprobs.begin(), a.logprobs.begin() + 20, b.logprobs.begin()), "attention is causal");
}

void nothingNeeded() {
  const ModelConfig config = models::base();
  models::Sample sample(config, {4, 1}, 15);
  sample.mask.assign(5, 0);
  sample.ce.assign(5, 0.0f);
  sample.refKl.assign(5, 0.0f);
  const Run<double> run = train<double>(config, {sample});
  check::that(std::all_of(run.gradients.begin(), run.gradients.end(), [](double g) { return g == 0; }),
              "no member, no gradient");
  check::that(run.logprobs == std::vector<double>(5, 0.0), "no member, no head");
}

void refusals() {
  Pool pool(1);
  Cancel cancel;
  const Compute compute{pool, Isa::scalar, &cancel};
  const ModelConfig config = models::base();
  Model<float> model(config);
  const std::vector<float> weights = models::weights<float>(model.layout(), 8);
  std::vector<float> gradients(weights.size()), out(8), more(8);
  models::Sample sample(config, {5, 3}, 16);
  const auto score = [&] { model.score(compute, weights.data(), sample.batch(), out.data(), more.data()); };
  const auto back = [&] { model.backward(compute, weights.data(), out.data(), gradients.data()); };
  check::throws("ERR_STATE", back, "backward without forward");
  sample.ids[3] = 53;
  check::throws("ERR_BATCH", score, "an id outside the vocabulary");
  sample.ids[3] = 0;
  sample.temperatures[2] = 0;
  check::throws("ERR_BATCH", score, "temperature 0");
  sample.temperatures[2] = 1;
  sample.lengths = {5, 2};
  check::throws("ERR_BATCH", score, "lengths that do not sum up");
  sample.lengths = {8, 0};
  check::throws("ERR_BATCH", score, "an empty sequence");
  sample.lengths = {5, 3};
  Batch batch = sample.batch();
  batch.referenceLogprobs = nullptr;
  check::throws("ERR_BATCH", [&] { validateBatch(config, batch); }, "refKl without references");
  score();
  model.forward(compute, weights.data(), sample.batch(), nullptr, out.data(), more.data());
  cancel.cancel();
  check::throws("ERR_CANCELLED", back, "a cancelled backward");
  check::throws("ERR_CANCELLED", score, "a cancelled score");
  ModelConfig odd = config;
  odd.kvHeads = 3;
  check::throws("ERR_CONFIG", [&] { Model<float> none(odd); }, "heads that do not divide");
  for (int64_t ModelConfig::*size : {&ModelConfig::vocabSize, &ModelConfig::heads, &ModelConfig::layers}) {
    ModelConfig huge = config;
    huge.hiddenSize = huge.intermediateSize = huge.*size = std::numeric_limits<int32_t>::max();
    huge.kvHeads = 1;
    check::throws("ERR_CONFIG", [&] { Layout none(huge); }, "sizes whose product overflows");
  }
  check::throws("ERR_TENSOR", [&] { model.layout().at("model.layers.9.mlp.up_proj.weight"); }, "an unknown tensor");
}

void layoutIsComplete() {
  for (const models::Named& named : models::families()) {
    const Layout layout(named.config);
    int64_t next = 0;
    bool dense = true;
    for (const TensorSpec& tensor : layout.tensors()) {
      dense = dense && tensor.offset == next;
      next += tensor.count;
    }
    check::that(dense && next == layout.total(), std::string(named.name) + ": the arena has no gaps");
    check::that(layout.tensors().front().name == "model.embed_tokens.weight", "the embedding is first");
    check::that((layout.head() == layout.embedding()) == named.config.tieWordEmbeddings,
                "a tied head is the embedding");
  }
}

}  // namespace

int main() {
  layoutIsComplete();
  for (const models::Named& named : models::families()) {
    finiteDifferences(named);
    floatAgainstDouble(named);
    packingDoesNotMatter(named);
    unneededRowsDoNotMatter(named);
    roundedAgainstDouble(named);
  }
  neighboursAreInvisible();
  lateTokensAreInvisible();
  nothingNeeded();
  refusals();
  return check::close("model");
}
