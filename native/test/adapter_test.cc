// Adapters on an engine: what is trained is one of them alone, not the model nor another, and each decodes as alone.
#include <algorithm>

#include "adapters.h"
#include "client.h"
#include "primerl/plan.h"

using namespace primerl;
using adapters::everywhere;

namespace {

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
std::shared_ptr<Adapter> trainedOn(Client& client, int64_t rank, unsigned seed = 1, double dropout = 0) {
  const std::shared_ptr<Adapter> adapter = on(client, rank, dropout);
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

/** Log-probabilities of a training pass, with its masks. */
Bits pass(Client& client, const std::shared_ptr<Adapter>& adapter) {
  Bits logprobs;
  client.run([&](const Engine::Context& at) {
    const models::Sample sample(at.network.config(), {20, 9}, 3);
    logprobs = at.network.forward(at.compute, sample.batch(), adapter.get()).logprobs;
  });
  return logprobs;
}

void masksArePlaces() {
  Client client(false);
  const auto adapter = on(client, 4, 0.3);
  step(client, adapter, 1);
  const Bits first = pass(client, adapter), second = pass(client, adapter);
  check::that(!check::sameBits(first, second), "each pass of a step has masks of its own");
  adapter->zeroGradients();
  check::that(check::sameBits(pass(client, adapter), first), "a step that is begun again has the masks that it had");
  client.run([&](const Engine::Context& at) {
    AdamW still;
    still.learningRate = 0;
    adapter->optimizerStep(at.compute, still);
  });
  check::that(!check::sameBits(pass(client, adapter), first), "the next step has others");
  Client again(false);
  const auto resumed = on(again, 4, 0.3);
  again.run([&](const Engine::Context&) {
    resumed->adopt(adapter->snapshot());
    resumed->setOptimizerSteps(2);
  });
  adapter->zeroGradients();
  check::that(check::sameBits(pass(again, resumed), pass(client, adapter)), "a resumed step has the masks that it would have had");
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
  const auto one = trainedOn(client, 2), other = trainedOn(client, 5, 20, 0.3), untrained = on(client, 3);
  // The model is newer than its adapters: its version alone does not tell them apart.
  client.run([](const Engine::Context& at) { at.network.initialise(at.compute, 8, 0.4); });
  const std::shared_ptr<Adapter> list[] = {nullptr, one, other, untrained};
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

}  // namespace

int main() {
  adaptersAreAlone();
  masksArePlaces();
  passesBelongTogether();
  adaptersDecodeTogether();
  newValues();
  memory();
  return check::close("adapters");
}
