// Adapters: their gradients by finite differences and by merged weights, their masks, and that what is trained is one
// adapter alone: not the model under it, nor another adapter.
#include "primerl/lora.h"

#include <algorithm>
#include <set>

#include "client.h"
#include "models.h"
#include "primerl/loss.h"
#include "primerl/model.h"
#include "primerl/plan.h"

using namespace primerl;

namespace {

constexpr const char* projections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                       "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};

LoraOptions everywhere(const ModelConfig& config, int64_t rank, double scale) {
  LoraOptions options;
  options.rank = rank;
  options.scale = scale;
  options.seed = 5;
  for (int64_t layer = 0; layer < config.layers; layer++)
    for (const char* name : projections) options.modules.push_back("model.layers." + std::to_string(layer) + "." + name);
  return options;
}

/** Random values for both matrices: with B zero, A would have no gradient. */
template <class T>
std::vector<T> valuesOf(const LoraLayout& layout, unsigned seed) {
  check::Random random(seed);
  std::vector<T> values(size_t(layout.total()));
  for (const TensorSpec& spec : layout.tensors())
    for (int64_t i = 0; i < spec.count; i++)
      values[size_t(spec.offset + i)] = T(float(random.normal() / std::sqrt(double(spec.shape[1]))));
  return values;
}

template <class T>
LoraPass<T> passOf(const LoraLayout& layout, const std::vector<T>& values, std::vector<T>* gradients = nullptr) {
  LoraPass<T> pass;
  pass.layout = &layout;
  pass.weights = values.data();
  pass.gradients = gradients == nullptr ? nullptr : gradients->data();
  return pass;
}

void slopes(const models::Named& named, double dropout) {
  Pool pool(2);
  const Compute compute{pool, Isa::scalar};
  LoraOptions options = everywhere(named.config, 3, 0.7);
  options.dropout = dropout;
  const LoraLayout layout(named.config, options);
  Model<double> model(named.config);
  const models::Sample sample(named.config, {1, 13, 1, 6}, 9);
  const Batch batch = sample.batch();
  const size_t n = size_t(batch.tokens);
  const std::vector<double> weights = models::weights<double>(model.layout(), 8);
  std::vector<double> values = valuesOf<double>(layout, 3), gradients(values.size()), logprobs(n), entropy(n);
  check::Random random(10);
  std::vector<double> slope = random.normals<double>(n);
  for (size_t t = 0; t < n; t += 3) slope[t] = 0;
  LoraPass<double> pass = passOf(layout, values, &gradients);
  pass.drops = dropout > 0;
  pass.maskSeed = 77;
  model.forward(compute, weights.data(), batch, nullptr, logprobs.data(), entropy.data(), pass);
  model.backward(compute, weights.data(), slope.data(), nullptr, pass);
  const auto loss = [&] {
    model.forward(compute, weights.data(), batch, nullptr, logprobs.data(), entropy.data(), pass);
    double sum = 0;
    for (size_t t = 0; t < n; t++) sum += slope[t] * logprobs[t];
    return sum;
  };
  for (const TensorSpec& tensor : layout.tensors()) {
    const std::vector<double> start = values, direction = random.normals<double>(size_t(tensor.count));
    const double h = 1e-6;
    double expected = 0;
    for (size_t i = 0; i < direction.size(); i++) expected += direction[i] * gradients[size_t(tensor.offset) + i];
    const auto at = [&](double step) {
      for (size_t i = 0; i < direction.size(); i++)
        values[size_t(tensor.offset) + i] = start[size_t(tensor.offset) + i] + step * direction[i];
      return loss();
    };
    const double numeric = (at(h) - at(-h)) / (2 * h);
    std::copy(start.begin(), start.end(), values.begin());
    check::below(std::abs(numeric - expected) / (1 + std::abs(expected)), 2e-6,
                 std::string(named.name) + (dropout > 0 ? " dropping" : "") + " slope by " + tensor.name);
  }
}

template <class T>
struct Trained {
  std::vector<T> logprobs, gradients;
};

struct Setting {
  int threads = 1;
  Isa isa = Isa::scalar;
  bool recompute = false;
  Precision precision = Precision::float32;
  double dropout = 0;
  uint64_t maskSeed = 1;
};

template <class T>
Trained<T> train(const ModelConfig& config, const Setting& setting) {
  Pool pool(setting.threads);
  const Compute compute{pool, setting.isa, nullptr, setting.precision, setting.precision};
  Model<T> model(config, {setting.recompute});
  LoraOptions options = everywhere(config, 5, 0.5);
  options.dropout = setting.dropout;
  const LoraLayout layout(config, options);
  const models::Sample sample(config, {30, 1, 75, 2, 7}, 11);
  const Batch batch = sample.batch();
  const std::vector<T> weights = models::weights<T>(model.layout(), 8), values = valuesOf<T>(layout, 4);
  Trained<T> run;
  run.gradients.resize(values.size());
  run.logprobs.resize(size_t(batch.tokens));
  std::vector<T> entropy(run.logprobs.size());
  LoraPass<T> pass = passOf(layout, values, &run.gradients);
  pass.drops = true;
  pass.maskSeed = setting.maskSeed;
  model.forwardBackward(compute, weights.data(), batch, nullptr, [](int64_t t, double) { return 0.1 * double(t % 7) - 0.2; },
                        nullptr, run.logprobs.data(), entropy.data(), pass);
  return run;
}

/** W + scale · B·A is the same model, and the chain rule gives the same gradients. */
void merged(const models::Named& named) {
  Pool pool(2);
  const Compute compute{pool, Isa::scalar};
  const LoraOptions options = everywhere(named.config, 5, 0.5);
  const LoraLayout layout(named.config, options);
  Model<double> model(named.config);
  std::vector<double> weights = models::weights<double>(model.layout(), 8);
  const std::vector<double> values = valuesOf<double>(layout, 4);
  std::vector<double> expected(values.size());
  for (const std::string& module : options.modules) {
    const TensorSpec& w = model.layout().at(module + ".weight");
    const double* a = values.data() + layout.at("base_model.model." + module + ".lora_A.weight").offset;
    const double* b = values.data() + layout.at("base_model.model." + module + ".lora_B.weight").offset;
    for (int64_t o = 0; o < w.shape[0]; o++)
      for (int64_t i = 0; i < w.shape[1]; i++)
        for (int64_t r = 0; r < 5; r++)
          weights[size_t(w.offset + o * w.shape[1] + i)] += 0.5 * b[o * 5 + r] * a[r * w.shape[1] + i];
  }
  const models::Sample sample(named.config, {30, 1, 75, 2, 7}, 11);
  const Batch batch = sample.batch();
  std::vector<double> gradients(weights.size()), logprobs(size_t(batch.tokens)), entropy(logprobs.size());
  model.forwardBackward(compute, weights.data(), batch, nullptr, [](int64_t t, double) { return 0.1 * double(t % 7) - 0.2; },
                        gradients.data(), logprobs.data(), entropy.data());
  for (const std::string& module : options.modules) {
    const TensorSpec& w = model.layout().at(module + ".weight");
    const TensorSpec& a = layout.at("base_model.model." + module + ".lora_A.weight");
    const TensorSpec& b = layout.at("base_model.model." + module + ".lora_B.weight");
    const double* dw = gradients.data() + w.offset;
    for (int64_t o = 0; o < w.shape[0]; o++) {
      for (int64_t i = 0; i < w.shape[1]; i++) {
        for (int64_t r = 0; r < 5; r++) {
          const double slope = 0.5 * dw[o * w.shape[1] + i];
          expected[size_t(a.offset + r * w.shape[1] + i)] += slope * values[size_t(b.offset + o * 5 + r)];
          expected[size_t(b.offset + o * 5 + r)] += slope * values[size_t(a.offset + r * w.shape[1] + i)];
        }
      }
    }
  }
  const std::string name = named.name;
  const Trained<double> exact = train<double>(named.config, {});
  check::below(check::largestDifference(exact.logprobs, logprobs), 1e-11, name + ": as merged");
  check::below(check::relative(exact.gradients, expected), 1e-11, name + ": gradients as merged");
  for (const Isa isa : check::isas()) {
    Setting setting;
    setting.isa = isa;
    const Trained<float> run = train<float>(named.config, setting);
    check::below(check::largestDifference(run.logprobs, logprobs), 2e-5, name + " float as merged");
    check::below(check::relative(run.gradients, expected), 2e-5, name + " float gradients as merged");
    setting.precision = Precision::bfloat16;
    const Trained<float> rounded = train<float>(named.config, setting);
    check::below(check::largestDifference(rounded.logprobs, logprobs), 0.25, name + " bfloat16 as merged");
    check::below(check::relative(rounded.gradients, expected), 6e-2, name + " bfloat16 gradients as merged");
  }
}

void masks() {
  const ModelConfig config = models::families()[3].config;
  Setting setting;
  setting.isa = detectIsa();
  setting.dropout = 0.3;
  const Trained<float> run = train<float>(config, setting);
  setting.threads = 3;
  check::that(check::sameBits(train<float>(config, setting).gradients, run.gradients), "threads change no mask");
  setting.recompute = true;
  check::that(check::sameBits(train<float>(config, setting).gradients, run.gradients), "recomputing changes no mask");
  setting.maskSeed = 2;
  check::that(!check::sameBits(train<float>(config, setting).logprobs, run.logprobs), "another pass, another mask");
  setting.dropout = 0;
  check::that(!check::sameBits(train<float>(config, setting).logprobs, run.logprobs), "dropout drops");
}

void wrongOptions() {
  const ModelConfig config = models::base();
  const auto refused = [&](const std::function<void(LoraOptions&)>& change, const std::string& what) {
    LoraOptions options = everywhere(config, 4, 1);
    change(options);
    check::throws("ERR_CONFIG", [&] { LoraLayout layout(config, options); }, what);
  };
  refused([](LoraOptions& options) { options.rank = 0; }, "no rank");
  refused([](LoraOptions& options) { options.rank = int64_t{1} << 40; }, "a rank that no machine holds");
  refused([](LoraOptions& options) { options.modules.clear(); }, "no module");
  refused([](LoraOptions& options) { options.modules.push_back("lm_head"); }, "the head");
  refused([](LoraOptions& options) { options.modules.push_back("model.layers.2.mlp.up_proj"); }, "a layer too far");
  refused([](LoraOptions& options) { options.dropout = 1; }, "everything dropped");
  refused([](LoraOptions& options) { options.scale = NAN; }, "no number");
}

using client::Client;

using Bits = std::vector<float>;

Bits bitsOf(Parameters& parameters) {
  const Snapshot snapshot = parameters.snapshot();
  return {snapshot->begin(), snapshot->end()};
}

/** One step on a batch of the engine's model; the seed says which batch. */
void step(Client& client, const std::shared_ptr<Adapter>& adapter, unsigned seed) {
  const std::string code = client.run([&](const Engine::Context& at) {
    const models::Sample sample(at.network.config(), {20, 9}, seed);
    at.network.forwardBackward(at.compute, sample.batch(), {20, 12, 9}, {}, adapter.get());
    AdamW options;
    options.learningRate = 0.02;
    options.weightDecay = 0.1;
    check::that(adapter->optimizerStep(at.compute, options).applied, "a step is applied");
  });
  check::that(code.empty(), "a step is taken: " + code);
}

std::shared_ptr<Adapter> on(const Client& client, int64_t rank, double dropout = 0, uint64_t seed = 5) {
  LoraOptions options = everywhere(client::tinyConfig(), rank, 1.5);
  options.dropout = dropout;
  options.seed = seed;
  return client.engine->createAdapter(options, true);
}

/** An adapter that does something. */
std::shared_ptr<Adapter> trainedOn(Client& client, int64_t rank, unsigned seed = 1) {
  const std::shared_ptr<Adapter> adapter = on(client, rank);
  for (unsigned i = 0; i < 3; i++) step(client, adapter, seed + i);
  return adapter;
}

void adaptersAreAlone() {
  Client client(false);
  Bits before;
  client.run([&](const Engine::Context& at) { before = bitsOf(at.network); });
  const auto small = on(client, 2, 0.2), large = on(client, 8, 0.1, 6);
  const Bits fresh = bitsOf(*small);
  for (unsigned i = 0; i < 4; i++) {
    step(client, small, i);
    step(client, large, 40 + i);
    if (i == 1) step(client, large, 90);
  }
  check::that(small->optimizerSteps() == 4 && large->optimizerSteps() == 5, "each adapter counts its own steps");
  client.run([&](const Engine::Context& at) {
    check::that(check::sameBits(bitsOf(at.network), before), "the bits of the model do not change");
  });
  check::that(!check::sameBits(bitsOf(*small), fresh), "a step changes its adapter");
  Client another(false);
  const auto again = on(another, 2, 0.2);
  check::that(check::sameBits(bitsOf(*again), fresh), "one seed, one beginning");
  for (unsigned i = 0; i < 4; i++) step(another, again, i);
  check::that(check::sameBits(bitsOf(*again), bitsOf(*small)), "beside another adapter an adapter has the bits that it has alone");
  const std::string name = small->table().tensors()[3].name;
  Bits first(size_t(small->table().tensors()[3].count)), second = first, firstAlone = first, secondAlone = first;
  small->readMoments(name, first.data(), second.data());
  again->readMoments(name, firstAlone.data(), secondAlone.data());
  check::that(check::sameBits(first, firstAlone) && check::sameBits(second, secondAlone), "and the moments");
}

void passesBelongTogether() {
  Client client(false);
  const auto one = trainedOn(client, 2), other = trainedOn(client, 4);
  const models::Sample sample(client::tinyConfig(), {12}, 3);
  const auto forwardThen = [&](const std::function<void(const Engine::Context&)>& then) {
    return client.run([&](const Engine::Context& at) {
      at.network.forward(at.compute, sample.batch(), one.get());
      then(at);
    });
  };
  const std::vector<float> gradient(12, 0.0f);
  check::that(forwardThen([&](const Engine::Context& at) { at.network.backward(at.compute, gradient, one.get()); }).empty(),
              "forward, then backward");
  check::that(forwardThen([&](const Engine::Context& at) {
                at.network.backward(at.compute, gradient, other.get());
              }) == "ERR_STATE",
              "the backward pass of another adapter is refused");
  check::that(forwardThen([&](const Engine::Context& at) {
                one->initialise();
                at.network.backward(at.compute, gradient, one.get());
              }) == "ERR_STATE",
              "and one whose values have changed");
  check::that(client.run([&](const Engine::Context& at) {
                at.network.forwardBackward(at.compute, sample.batch(), {}, {});
              }) == "ERR_STATE",
              "the model under an adapter is not trainable");
}

GenerateRequest ask(const std::shared_ptr<Adapter>& adapter, uint32_t seed) {
  GenerateRequest request = client::requestOf(seed, 40, 20);
  request.adapter = adapter;
  return request;
}

/** Log-probabilities of what was drawn, by a pass over all of it. */
Bits scored(Client& client, const GenerateRequest& request, const GenerateResult& result) {
  Bits logprobs;
  client.run([&](const Engine::Context& at) {
    std::vector<int32_t> ids = request.promptIds, lengths;
    ids.insert(ids.end(), result.tokenIds.begin(), result.tokenIds.end());
    lengths.push_back(int32_t(ids.size()));
    const std::vector<float> temperatures(ids.size(), 1.0f);
    Tokens tokens;
    tokens.tokens = int64_t(ids.size());
    tokens.tokenIds = ids.data();
    tokens.sequences = 1;
    tokens.sequenceLengths = lengths.data();
    tokens.temperatures = temperatures.data();
    const Scores scores = at.network.score(at.compute, tokens, request.adapter.get());
    logprobs.assign(scores.logprobs.begin() + long(request.promptIds.size()), scores.logprobs.end());
  });
  return logprobs;
}

void adaptersDecodeTogether() {
  Client client(false);
  const auto one = trainedOn(client, 2), other = trainedOn(client, 5, 20);
  const std::shared_ptr<Adapter> list[] = {nullptr, one, other, on(client, 3)};
  std::vector<GenerateResult> alone;
  for (const auto& adapter : list) alone.push_back(client.generate(ask(adapter, 3)));
  for (size_t i = 0; i < 4; i++)
    check::below(check::largestDifference(alone[i].logprobs, scored(client, ask(list[i], 3), alone[i])), 2e-5,
                 "what is drawn with an adapter has the log-probability that it scores");
  check::that(client::same(alone[0], alone[3]), "an adapter that is not trained is the model");
  check::that(!client::same(alone[0], alone[1]) && !client::same(alone[1], alone[2]), "a trained one is another");
  // The same prompt for all: whatever is remembered of one adapter must not serve another.
  std::vector<Client::Started> started;
  for (int round = 0; round < 3; round++)
    for (const auto& adapter : list) started.push_back(client.start(ask(adapter, 3)));
  for (size_t i = 0; i < started.size(); i++) {
    check::that(started[i].wait().empty(), "a generation ends");
    check::that(client::same(started[i].outcome->result, alone[i % 4]), "in company an adapter yields what it does alone");
  }
  check::that(client.stats().sharedTokens >= 39 * 8, "those of one adapter share their beginning");
}

void newValues() {
  Client client(false);
  const auto served = trainedOn(client, 2), trainer = trainedOn(client, 2, 60), beside = trainedOn(client, 4);
  const GenerateResult before = client.generate(ask(served, 3)), untouched = client.generate(ask(beside, 3));
  uint64_t version = 0;
  client.run([&](const Engine::Context& at) {
    served->adopt(trainer->snapshot());
    version = at.network.versionWith(served.get());
  });
  const GenerateResult after = client.generate(ask(served, 3));
  check::that(!client::same(before, after) && after.weights.front().version == version, "new values serve the next request");
  check::that(client::same(after, client.generate(ask(trainer, 3))), "they are those of the snapshot");
  check::that(client::same(untouched, client.generate(ask(beside, 3))), "another adapter does not hear of it");
  // Running ones go on with the new values when they are told to, those of another adapter do not.
  GenerateRequest longer = ask(served, 4), other = ask(beside, 4);
  longer.sampling.maxTokens = other.sampling.maxTokens = 50;
  bool first = true;
  longer.onDraw = [&](const Draw&) {
    // asked for while it runs: it comes before the next token
    if (first) client.startJob([&](const Engine::Context& at) {
      served->initialise();
      at.moveGenerations(served.get());
    });
    first = false;
  };
  auto running = client.start(longer), still = client.start(other);
  check::that(running.wait().empty() && still.wait().empty(), "both end");
  check::that(running.outcome->result.weights.size() == 2, "the running one has two versions");
  check::that(still.outcome->result.weights.size() == 1, "the other one has one");
  // New weights of the model are new weights of its adapters.
  client.run([](const Engine::Context& at) { at.network.initialise(at.compute, 8, 0.4); });
  const GenerateResult rebased = client.generate(ask(beside, 3));
  check::that(!client::same(untouched, rebased) && rebased.weights.front().version > version, "an adapter follows its model");
  check::below(check::largestDifference(rebased.logprobs, scored(client, ask(beside, 3), rebased)), 2e-5,
               "and is scored by the model that it follows");
}

void memory() {
  Engine::Options options;
  options.threads = 1;
  options.isa = detectIsa();
  const ModelConfig config = client::tinyConfig();
  const LoraOptions adapter = everywhere(config, 4, 1);
  PlanOptions planned;
  planned.isa = options.isa;
  planned.tokens = 12;
  planned.rank = 4;
  planned.adapterTrains = true;
  planned.adapterBytes = Adapter::bytesOf(LoraLayout(config, adapter), true);
  const MemoryPlan plan = memoryPlan(config, planned);
  check::that(plan.gradients == 0 && plan.optimizer == 0, "the model under an adapter has neither gradients nor moments");
  options.memoryLimit = plan.total();
  Engine engine(config, options);
  const auto run = [&](Engine::Work work) {
    std::promise<std::string> code;
    engine.submit(std::move(work), [&](std::exception_ptr failure) { code.set_value(client::codeOf(failure)); });
    return code.get_future().get();
  };
  {
    const auto held = engine.createAdapter(adapter, true);
    const auto trains = [&](int32_t tokens) {
      const models::Sample sample(config, {tokens}, 3);
      return run([&](const Engine::Context& at) { at.network.forwardBackward(at.compute, sample.batch(), {1, 1, 1}, {}, held.get()); });
    };
    check::that(trains(12).empty(), "what is planned fits");
    check::that(trains(13) == "ERR_OUT_OF_MEMORY", "one token more does not");
  }
  const LoraOptions huge = everywhere(config, 4000, 1);
  check::throws("ERR_OUT_OF_MEMORY", [&] { engine.createAdapter(huge, true); }, "an adapter above the limit");
}

/** What the plan says of a pass under an adapter is what it takes. */
void planned(const models::Named& named, double dropout) {
  Pool pool(2);
  const Compute compute{pool, detectIsa()};
  LoraOptions options = everywhere(named.config, 16, 1);
  options.dropout = dropout;
  const LoraLayout layout(named.config, options);
  Model<float> model(named.config);
  const models::Sample sample(named.config, {300, 1, 75, 120}, 3);
  const Batch batch = sample.batch();
  const std::vector<float> weights = models::weights<float>(model.layout(), 8), values = valuesOf<float>(layout, 3);
  std::vector<float> gradients(values.size()), logprobs(size_t(batch.tokens)), entropy(logprobs.size());
  LoraPass<float> pass = passOf(layout, values, &gradients);
  pass.drops = true;
  model.forwardBackward(compute, weights.data(), batch, nullptr, [](int64_t, double) { return 1.0; }, nullptr,
                        logprobs.data(), entropy.data(), pass);
  PlanOptions plan;
  plan.isa = compute.isa;
  plan.threads = 2;
  plan.tokens = batch.tokens;
  plan.adapterTrains = true;
  plan.rank = 16;
  plan.drops = dropout > 0;
  const MemoryPlan bytes = memoryPlan(named.config, plan);
  check::that(model.keptBytes() <= bytes.activations && double(model.keptBytes()) >= 0.9 * double(bytes.activations),
              std::string(named.name) + ": activations under an adapter");
  check::that(model.scratchBytes() <= bytes.workspace, std::string(named.name) + ": workspace under an adapter");
}

}  // namespace

int main() {
  for (const models::Named& named : models::families()) {
    slopes(named, 0);
    slopes(named, 0.4);
    merged(named);
    planned(named, 0);
    planned(named, 0.1);
  }
  masks();
  wrongOptions();
  adaptersAreAlone();
  passesBelongTogether();
  adaptersDecodeTogether();
  newValues();
  memory();
  return check::close("lora");
}
