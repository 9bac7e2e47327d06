// The engine as its callers see it: what a generation yields depends on its own request alone, everything that was asked
// for ends exactly once, and a stopped job leaves nothing half done that could be trained on.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <limits>
#include <string>

#include "expect.h"
#include "engine.h"

using namespace primerl;

namespace {

ModelConfig tinyConfig() {
  ModelConfig config;
  config.hiddenSize = 32;
  config.intermediateSize = 48;
  config.layers = 2;
  config.heads = 4;
  config.kvHeads = 2;
  config.headDim = 8;
  config.vocabSize = 61;
  config.maxPositionEmbeddings = 96;
  config.qkNorm = true;
  config.tieWordEmbeddings = true;
  return config;
}

std::string codeOf(std::exception_ptr failure) {
  if (!failure) return "";
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code;
  } catch (...) {
    return "other";
  }
}

// A job's outcome, awaited by the test's own thread.
struct Outcome {
  std::promise<std::string> code;
  GenerateResult result;
};

class Client {
 public:
  explicit Client(bool trainable = false, int threads = 2) {
    Engine::Options options;
    options.threads = threads;
    options.trainable = trainable;
    options.isa = detectIsa();
    engine = std::make_unique<Engine>(tinyConfig(), options);
    CHECK(run([](const Engine::Context& at) { at.network.initialise(at.compute, 7, 0.4); }) == "");
  }

  std::string run(Engine::Work work) {
    auto outcome = std::make_shared<Outcome>();
    engine->submit(std::move(work), [outcome](std::exception_ptr failure) { outcome->code.set_value(codeOf(failure)); });
    return outcome->code.get_future().get();
  }

  struct Started {
    std::shared_ptr<Outcome> outcome;
    Engine::Ticket ticket;
    std::string wait() { return outcome->code.get_future().get(); }
  };

  Started start(GenerateRequest request) {
    auto outcome = std::make_shared<Outcome>();
    const auto ticket =
        engine->generate(std::move(request), [outcome](std::exception_ptr failure, GenerateResult result) {
          outcome->result = std::move(result);
          outcome->code.set_value(codeOf(failure));
        });
    return {outcome, ticket};
  }

  Started startJob(Engine::Work work) {
    auto outcome = std::make_shared<Outcome>();
    const auto ticket = engine->submit(
        std::move(work), [outcome](std::exception_ptr failure) { outcome->code.set_value(codeOf(failure)); });
    return {outcome, ticket};
  }

  GenerateResult generate(GenerateRequest request) {
    Started started = start(std::move(request));
    CHECK(started.wait() == "");
    return started.outcome->result;
  }

  std::unique_ptr<Engine> engine;
};

GenerateRequest requestOf(uint32_t seed, int prompt, int maxTokens, float temperature = 1) {
  GenerateRequest request;
  for (int i = 0; i < prompt; ++i) request.promptIds.push_back((i * 7 + 3) % 61);
  request.sampling.maxTokens = maxTokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return request;
}

bool same(const GenerateResult& a, const GenerateResult& b) {
  return a.tokenIds == b.tokenIds && a.logprobs == b.logprobs && a.stopped == b.stopped;
}

void neighboursDoNotMatter() {
  current = "a generation has the same bits alone, among others and on more threads";
  std::vector<GenerateRequest> requests;
  for (uint32_t i = 0; i < 24; ++i) requests.push_back(requestOf(i, 1 + static_cast<int>(i * 5 % 40), 30, i % 3 * 0.6f));
  std::vector<GenerateResult> alone;
  {
    Client client(false, 1);
    for (const GenerateRequest& request : requests) alone.push_back(client.generate(request));
  }
  Client client(false, 2);
  std::vector<Client::Started> started;
  for (auto request = requests.rbegin(); request != requests.rend(); ++request) started.push_back(client.start(*request));
  // Other work between the tokens.
  const std::vector<int32_t> ids = {1, 2, 3, 4}, lengths = {4};
  const std::vector<float> temperatures(4, 1.0f);
  for (int i = 0; i < 10; ++i)
    CHECK(client.run([&](const Engine::Context& at) {
      Tokens tokens;
      tokens.tokens = 4;
      tokens.tokenIds = ids.data();
      tokens.sequences = 1;
      tokens.sequenceLengths = lengths.data();
      tokens.temperatures = temperatures.data();
      at.network.score(at.compute, tokens);
    }) == "");
  for (size_t i = 0; i < started.size(); ++i) {
    CHECK(started[i].wait() == "");
    CHECK(same(started[i].outcome->result, alone[requests.size() - 1 - i]));
  }
}

void sharedPromptsDoNotMatter() {
  current = "sequences that share a beginning yield what they would alone";
  GenerateRequest base = requestOf(1, 50, 20);
  std::vector<GenerateRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) {
    GenerateRequest request = base;
    request.sampling.seed = i;
    if (i >= 4) request.promptIds[30 + i] = 5;
    if (i == 7) request.promptIds.resize(20);
    requests.push_back(request);
  }
  std::vector<GenerateResult> alone;
  {
    Client client;
    for (const GenerateRequest& request : requests) alone.push_back(client.generate(request));
  }
  Client client;
  std::vector<Client::Started> started;
  for (const GenerateRequest& request : requests) started.push_back(client.start(request));
  for (size_t i = 0; i < started.size(); ++i) {
    CHECK(started[i].wait() == "");
    CHECK(same(started[i].outcome->result, alone[i]));
  }
}

void logprobsAreThoseOfTheTrainer() {
  current = "log-probabilities are those that scoring gives";
  Client client;
  const GenerateRequest request = requestOf(5, 9, 40, 0.7f);
  const GenerateResult result = client.generate(request);
  std::vector<int32_t> ids = request.promptIds;
  ids.insert(ids.end(), result.tokenIds.begin(), result.tokenIds.end());
  const std::vector<int32_t> lengths = {static_cast<int32_t>(ids.size())};
  const std::vector<float> temperatures(ids.size(), 0.7f);
  Scores scores;
  CHECK(client.run([&](const Engine::Context& at) {
    Tokens tokens;
    tokens.tokens = static_cast<int64_t>(ids.size());
    tokens.tokenIds = ids.data();
    tokens.sequences = 1;
    tokens.sequenceLengths = lengths.data();
    tokens.temperatures = temperatures.data();
    scores = at.network.score(at.compute, tokens);
  }) == "");
  for (size_t i = 0; i < result.tokenIds.size(); ++i)
    CHECK(std::fabs(scores.logprobs[request.promptIds.size() + i] - result.logprobs[i]) < 1e-4);
}

void limitsEndAGeneration() {
  current = "stop ids, the token limit and the positions end a generation";
  Client client;
  GenerateRequest request = requestOf(3, 10, 25);
  const GenerateResult whole = client.generate(request);
  CHECK(whole.tokenIds.size() == 25 && !whole.stopped);
  request.sampling.stopIds = {60, whole.tokenIds[7], 59};
  const GenerateResult stopped = client.generate(request);
  size_t first = 0;
  while (std::find(request.sampling.stopIds.begin(), request.sampling.stopIds.end(), whole.tokenIds[first]) ==
         request.sampling.stopIds.end())
    ++first;
  CHECK(stopped.stopped && stopped.tokenIds.size() == first + 1);
  CHECK(stopped.tokenIds.size() == stopped.logprobs.size());
  for (size_t i = 0; i <= first; ++i) CHECK(stopped.logprobs[i] == whole.logprobs[i]);
  const GenerateResult full = client.generate(requestOf(3, 90, 100));
  CHECK(full.tokenIds.size() == 6 && !full.stopped);
  CHECK(client.start(requestOf(3, 96, 1)).wait() == "ERR_PROMPT_TOO_LONG");
  CHECK(client.start(requestOf(3, 0, 1)).wait() == "ERR_BATCH");
  request.promptIds[4] = 61;
  CHECK(client.start(request).wait() == "ERR_BATCH");
}

void runningGenerationsKeepTheirWeights() {
  current = "a generation ends on the weights that it began with";
  Client client;
  const GenerateRequest request = requestOf(2, 12, 60);
  const GenerateResult before = client.generate(request);
  Client other;
  Snapshot snapshot;
  CHECK(other.run([&](const Engine::Context& at) {
    at.network.initialise(at.compute, 8, 0.4);
    snapshot = at.network.snapshot();
  }) == "");
  const GenerateResult after = other.generate(request);
  CHECK(!same(before, after));
  Client::Started early = client.start(request);
  CHECK(client.run([&](const Engine::Context& at) { at.network.adopt(snapshot); }) == "");
  Client::Started late = client.start(request);
  CHECK(early.wait() == "" && late.wait() == "");
  CHECK(same(early.outcome->result, before));
  CHECK(same(late.outcome->result, after));
  CHECK(early.outcome->result.weightsVersion != late.outcome->result.weightsVersion);
}

void snapshotsDoNotChange() {
  current = "a snapshot keeps its weights whatever is trained later";
  Client client(true);
  Snapshot snapshot;
  std::vector<float> before(61 * 32), after(61 * 32), adopted(61 * 32);
  const std::string name = "model.embed_tokens.weight";
  CHECK(client.run([&](const Engine::Context& at) {
    snapshot = at.network.snapshot();
    at.network.readTensor(name, before.data());
    at.network.initialise(at.compute, 99, 1);
    at.network.readTensor(name, after.data());
    at.network.adopt(snapshot);
    at.network.readTensor(name, adopted.data());
  }) == "");
  CHECK(before != after);
  CHECK(before == adopted);
}

struct Training {
  std::vector<int32_t> ids = {1, 2, 3, 4, 5, 6}, lengths = {6};
  std::vector<float> temperatures = std::vector<float>(6, 1.0f), logprobs = std::vector<float>(6, -3.0f),
                     advantages = std::vector<float>(6, 1.0f);
  std::vector<uint8_t> mask = {0, 0, 1, 1, 1, 1};
  Batch view() const {
    Batch batch;
    batch.tokens = 6;
    batch.tokenIds = ids.data();
    batch.sequences = 1;
    batch.sequenceLengths = lengths.data();
    batch.temperatures = temperatures.data();
    batch.mask = mask.data();
    batch.logprobs = logprobs.data();
    batch.advantages = advantages.data();
    return batch;
  }
};

void gradientsThatAreNotFiniteAreSkipped() {
  current = "NUM-02: a gradient that is not finite changes neither weights, moments nor the step count";
  Client client(true);
  const Training training;
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  std::vector<float> weights[3], first[3], second[3];
  for (int i = 0; i < 3; ++i) weights[i].resize(48 * 32), first[i].resize(48 * 32), second[i].resize(48 * 32);
  bool applied[3] = {};
  int64_t steps[3] = {};
  AdamW options;
  options.maxGradNorm = 1;
  CHECK(client.run([&](const Engine::Context& at) {
    for (int i = 0; i < 3; ++i) {
      Training these = training;
      if (i == 1) these.advantages[3] = std::numeric_limits<float>::quiet_NaN();
      Counts counts;
      counts.rl = 4;
      at.network.forwardBackward(at.compute, these.view(), counts, LossSpec{});
      applied[i] = at.network.optimizerStep(at.compute, options).applied;
      steps[i] = at.network.optimizerSteps();
      at.network.readTensor(name, weights[i].data());
      at.network.readMoments(name, first[i].data(), second[i].data());
    }
  }) == "");
  CHECK(applied[0] && !applied[1] && applied[2]);
  CHECK(steps[0] == 1 && steps[1] == 1 && steps[2] == 2);
  CHECK(weights[0] == weights[1] && first[0] == first[1] && second[0] == second[1]);
  CHECK(weights[1] != weights[2]);
  for (const float weight : weights[2]) CHECK(std::isfinite(weight));
}

void aStoppedBackwardIsNotTrainedOn() {
  current = "gradients of a backward pass that was stopped are refused";
  Client client(true);
  const Training training;
  Counts counts;
  counts.rl = 4;
  CHECK(client.run([&](const Engine::Context& at) {
    Cancel cancel;
    cancel.cancel();
    const Compute stopped{at.compute.pool, at.compute.isa, &cancel};
    at.network.forwardBackward(stopped, training.view(), counts, LossSpec{});
  }) == "ERR_CANCELLED");
  const AdamW options;
  CHECK(client.run([&](const Engine::Context& at) { at.network.optimizerStep(at.compute, options); }) == "ERR_STATE");
  CHECK(client.run([&](const Engine::Context& at) {
    at.network.zeroGradients();
    at.network.forwardBackward(at.compute, training.view(), counts, LossSpec{});
    at.network.optimizerStep(at.compute, options);
  }) == "");
  Client untrained(false);
  CHECK(untrained.run([&](const Engine::Context& at) { at.network.zeroGradients(); }) == "ERR_STATE");
}

void cancellingEndsAtOnce() {
  current = "cancelling ends waiting jobs at once and running ones at their next check";
  Client client;
  std::promise<void> entered, release;
  Client::Started blocking = client.startJob([&](const Engine::Context& at) {
    entered.set_value();
    while (true) at.compute.check();
  });
  entered.get_future().wait();
  Client::Started waiting = client.startJob([](const Engine::Context&) { CHECK(false); });
  Client::Started generation = client.start(requestOf(1, 5, 5));
  client.engine->cancel(waiting.ticket);
  CHECK(waiting.wait() == "ERR_CANCELLED");
  client.engine->cancel(generation.ticket);
  CHECK(generation.wait() == "ERR_CANCELLED");
  client.engine->cancel(blocking.ticket);
  CHECK(blocking.wait() == "ERR_CANCELLED");
  // A running generation, among others that go on.
  Client::Started cancelled = client.start(requestOf(1, 5, 90));
  Client::Started going = client.start(requestOf(2, 5, 90));
  client.engine->cancel(cancelled.ticket);
  const std::string code = cancelled.wait();
  CHECK(code == "ERR_CANCELLED" || code == "");
  CHECK(going.wait() == "" && going.outcome->result.tokenIds.size() == 90);
  client.engine->cancel(going.ticket);
}

void closingEndsEverything() {
  current = "closing while work runs ends all of it, once";
  Client client;
  std::promise<void> entered;
  std::vector<Client::Started> started;
  started.push_back(client.startJob([&](const Engine::Context& at) {
    entered.set_value();
    while (true) at.compute.check();
  }));
  entered.get_future().wait();
  for (uint32_t i = 0; i < 4; ++i) started.push_back(client.start(requestOf(i, 5, 50)));
  client.engine->close();
  for (size_t i = 0; i < started.size(); ++i) CHECK(started[i].wait() == "ERR_DISPOSED");
  CHECK(client.start(requestOf(1, 5, 5)).wait() == "ERR_DISPOSED");
  client.engine->close();
}

}  // namespace

int main() {
  neighboursDoNotMatter();
  sharedPromptsDoNotMatter();
  logprobsAreThoseOfTheTrainer();
  limitsEndAGeneration();
  runningGenerationsKeepTheirWeights();
  snapshotsDoNotChange();
  gradientsThatAreNotFiniteAreSkipped();
  aStoppedBackwardIsNotTrainedOn();
  cancellingEndsAtOnce();
  closingEndsEverything();
  return check::close("generation and engine");
}
