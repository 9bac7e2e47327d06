// Step by step with a cache gives what one packed forward pass gives, whatever else is decoded at the same time.
#include "primerl/decode.h"

#include "few_rows.h"
#include "kv_block.h"
#include "models.h"
#include "primerl/model.h"

using namespace primerl;

namespace {

using Logits = std::vector<std::vector<float>>;

struct Machine {
  Pool pool;
  Compute compute;
  ModelConfig config;
  Decoder decoder;
  std::vector<float> weights;

  Machine(const ModelConfig& modelConfig, Isa isa, int threads)
      : pool(threads), compute{pool, isa}, config(modelConfig), decoder(modelConfig, isa),
        weights(models::weights<float>(Layout(modelConfig), 8)) {
    decoder.load(compute, weights.data());
  }

  Logits extend(const std::vector<DecodeInput>& inputs) {
    std::vector<float> flat(inputs.size() * size_t(config.vocabSize));
    decoder.extend(compute, inputs, flat.data());
    Logits rows;
    for (size_t i = 0; i < inputs.size(); i++) {
      const auto begin = flat.begin() + long(i * size_t(config.vocabSize));
      rows.emplace_back(begin, begin + long(config.vocabSize));
    }
    return rows;
  }

  /** Logits after each token from `prompt` on: the prompt at once, then one by one. */
  Logits alone(const std::vector<int32_t>& ids, int64_t prompt) {
    KvCache cache = decoder.newCache();
    Logits all{extend({{&cache, ids.data(), prompt}})[0]};
    for (size_t t = size_t(prompt); t < ids.size(); t++) all.push_back(extend({{&cache, &ids[t], 1}})[0]);
    return all;
  }
};

double logSoftmax(const std::vector<float>& logits, int32_t id) {
  double top = logits[0], sum = 0;
  for (const float z : logits) top = std::max(top, double(z));
  for (const float z : logits) sum += std::exp(double(z) - top);
  return double(logits[size_t(id)]) - top - std::log(sum);
}

std::vector<int32_t> ids(const ModelConfig& config, size_t count, unsigned seed) {
  return models::Sample(config, {int32_t(count)}, seed).ids;
}

void asPackedForward(const models::Named& named, Isa isa) {
  Machine machine(named.config, isa, 2);
  Model<float> model(named.config);
  models::Sample sample(named.config, {90}, 21);
  sample.temperatures.assign(90, 1.0f);
  std::vector<float> logprobs(90), entropy(90);
  model.score(machine.compute, machine.weights.data(), sample.batch(), logprobs.data(), entropy.data());
  const Logits steps = machine.alone(sample.ids, 17);
  double worst = 0;
  for (size_t t = 17; t < 90; t++) {
    worst = std::max(worst, std::abs(logSoftmax(steps[t - 17], sample.ids[t]) - double(logprobs[t])));
  }
  const std::string name = std::string(named.name) + " " + isaName(isa);
  check::below(worst, 2e-6, name + ": decoding as the packed forward");
  check::that(machine.alone(sample.ids, 90)[0] == steps.back(), name + ": a prompt at once or in steps, the same bits");
}

void othersDoNotMatter(Isa isa) {
  ModelConfig config = models::base();
  config.kvHeads = 2;
  config.qkNorm = true;
  Machine machine(config, isa, 3), single(config, isa, 1);
  const std::vector<size_t> lengths{40, 3, 21, 33, 9, 12, 27, 5, 18, 30, 7, 11, 39, 2, 16, 25, 1};
  std::vector<std::vector<int32_t>> tokens;
  std::vector<Logits> expected;
  std::vector<KvCache> caches;
  for (size_t s = 0; s < lengths.size(); s++) {
    tokens.push_back(ids(config, lengths[s] + 12, unsigned(s)));
    expected.push_back(single.alone(tokens[s], int64_t(lengths[s])));
    caches.push_back(machine.decoder.newCache());
  }
  // sequences join in two waves and leave one after the other
  bool same = true;
  std::vector<size_t> done(lengths.size(), 0);
  for (size_t step = 0; step < 30; step++) {
    std::vector<DecodeInput> inputs;
    std::vector<size_t> who;
    for (size_t s = 0; s < lengths.size(); s++) {
      if ((s % 2 == 1 && step < 4) || done[s] > 12 - s % 5) continue;
      const int64_t from = done[s] == 0 ? 0 : int64_t(lengths[s] + done[s]) - 1;
      inputs.push_back({&caches[s], tokens[s].data() + from, done[s] == 0 ? int64_t(lengths[s]) : 1});
      who.push_back(s);
    }
    const Logits rows = machine.extend(inputs);
    for (size_t i = 0; i < who.size(); i++) same = same && rows[i] == expected[who[i]][done[who[i]]++];
  }
  check::that(same, std::string(isaName(isa)) + ": a sequence has the same bits alone and among others");
}

void forkedPrefix() {
  const ModelConfig config = models::base();
  Machine machine(config, detectIsa(), 2);
  const std::vector<int32_t> a = ids(config, 150, 1);
  std::vector<int32_t> b = a;
  for (size_t t = 70; t < b.size(); t++) b[t] = (b[t] + 1) % int32_t(config.vocabSize);
  KvCache first = machine.decoder.newCache();
  const Logits whole = machine.extend({{&first, a.data(), 150}});
  KvCache second = first.fork(70);
  check::that(second.length() == 70 && first.length() == 150, "a fork has its own length");
  const Logits rest = machine.extend({{&second, b.data() + 70, 80}});
  check::that(rest[0] == machine.alone(b, 150)[0], "a forked prefix gives the bits of the whole prompt");
  KvCache third = first.fork(70);
  check::that(machine.extend({{&third, a.data() + 70, 80}})[0] == whole[0], "the first cache is untouched");
  check::throws("ERR_STATE", [&] { first.fork(151); }, "a fork longer than the cache");
  check::that(KvCache(machine.decoder.newCache()).fork(0).length() == 0, "an empty fork");
}

void refusalsChangeNothing() {
  const ModelConfig config = models::base();
  Machine machine(config, detectIsa(), 1);
  const std::vector<int32_t> tokens = ids(config, 20, 2);
  KvCache cache = machine.decoder.newCache(), other = machine.decoder.newCache();
  std::vector<float> logits(size_t(2 * config.vocabSize));
  machine.extend({{&cache, tokens.data(), 10}});
  const auto refused = [&](const std::vector<DecodeInput>& inputs, const std::string& what) {
    check::throws("ERR_BATCH", [&] { machine.decoder.extend(machine.compute, inputs, logits.data()); }, what);
  };
  const int32_t unknown = int32_t(config.vocabSize);
  const std::vector<int32_t> many(513, 1);
  refused({{&other, tokens.data(), 2}, {&cache, &unknown, 1}}, "an unknown id");
  refused({{&cache, tokens.data(), 0}}, "an input without tokens");
  refused({{&cache, tokens.data(), 1}, {&cache, tokens.data(), 1}}, "a cache twice");
  refused({{&cache, many.data(), 503}}, "too many positions");
  Cancel cancel;
  cancel.cancel();
  const Compute cancelled{machine.pool, machine.compute.isa, &cancel};
  check::throws("ERR_CANCELLED",
                [&] { machine.decoder.extend(cancelled, {{&cache, tokens.data() + 10, 1}}, logits.data()); },
                "a cancelled step");
  check::that(cache.length() == 10 && other.length() == 0, "a refused step leaves all caches as they were");
  machine.extend({{&cache, tokens.data() + 10, 9}});
  check::that(machine.extend({{&cache, &tokens[19], 1}})[0] == machine.alone(tokens, 20)[0], "and decoding goes on");
  if (detectIsa() != Isa::scalar) {
    const Compute foreign{machine.pool, Isa::scalar};
    check::throws("ERR_STATE", [&] { machine.decoder.load(foreign, machine.weights.data()); },
                  "another instruction set");
  }
  Decoder empty(config, detectIsa());
  KvCache blank = empty.newCache();
  check::throws("ERR_STATE", [&] { empty.extend(machine.compute, {{&blank, tokens.data(), 1}}, logits.data()); },
                "a decoder without weights");
}

void fewRowsAreAsMany(Isa isa, Precision precision) {
  Pool pool(3);
  const Compute compute{pool, isa, nullptr, precision, precision};
  check::Random random(5);
  bool same = true;
  // more than one block of K and of columns, none of them whole
  for (const auto& [depth, columns] : {std::pair<int64_t, int64_t>{40, 53}, {1100, 70}, {131, 2100}}) {
    const std::vector<float> x = random.normals<float>(size_t(90 * depth)), w = random.normals<float>(size_t(columns * depth));
    const std::vector<float> before = random.normals<float>(size_t(90 * columns));
    PackedMatrix<float> b;
    b.pack(compute, depth, columns, transposed(w.data(), depth));
    for (const bool accumulate : {false, true}) {
      std::vector<float> all = before;
      gemm(compute, 90, rows(x.data(), depth), b, all.data(), columns, accumulate);
      for (const int64_t count : {1, 2, 13, 15, 32, 64, 90}) {
        const int64_t from = 90 - count;
        std::vector<float> some(before.begin() + from * columns, before.end());
        product(compute, count, x.data() + from * depth, b, some.data(), accumulate);
        same = same && std::equal(some.begin(), some.end(), all.begin() + from * columns);
      }
    }
  }
  check::that(same, std::string(isaName(isa)) + ": a row of few has the bits of a row of many");
}

void blocksAreGivenBack() {
  const ModelConfig config = models::base();
  auto memory = std::make_shared<KvMemory>(config, detectIsa(), 5);
  Machine machine(config, detectIsa(), 1);
  const std::vector<int32_t> tokens = ids(config, 200, 3);
  std::vector<float> logits(size_t(config.vocabSize));
  const auto read = [&](KvCache& cache, int64_t count) {
    machine.decoder.extend(machine.compute, {{&cache, tokens.data() + cache.length(), count}}, logits.data());
  };
  {
    KvCache first(memory);
    read(first, 40);
    check::that(memory->used() == 2, "blocks for what is held");
    KvCache second = first.fork(40);
    check::that(memory->used() == 2, "a fork shares");
    read(second, 1);
    check::that(memory->used() == 3, "and copies the begun block before it writes");
    read(first, 24);
    check::that(memory->used() == 3, "the first goes on in its own");
    check::throws("ERR_OUT_OF_MEMORY", [&] { read(first, 97); }, "beyond the limit");
    check::that(first.length() == 64 && memory->used() <= 5, "which nothing passes");
    second.clear();
    read(first, 60);
  }
  check::that(memory->used() == 0, "all blocks are given back");
}

}  // namespace

int main() {
  for (const Isa isa : check::isas()) {
    for (const Precision precision : {Precision::float32, Precision::bfloat16, Precision::bfloat16x3}) {
      fewRowsAreAsMany(isa, precision);
    }
    for (const models::Named& named : models::families()) asPackedForward(named, isa);
    othersDoNotMatter(isa);
  }
  forkedPrefix();
  refusalsChangeNothing();
  blocksAreGivenBack();
  return check::close("decode");
}
