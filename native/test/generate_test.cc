// What a generation yields depends on its own request alone: not on others, on memory, nor on when weights change.
#include <algorithm>
#include <cmath>

#include "client.h"

using namespace client;

namespace {

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

// A request by chance: often it begins as others do.
GenerateRequest anyRequest(check::Random& random) {
  GenerateRequest request = requestOf(static_cast<uint32_t>(random.below(1000)), 1 + random.below(70), 1 + random.below(25),
                                      static_cast<float>(random.below(3)) * 0.7f);
  if (random.below(3) == 0) request.promptIds[static_cast<size_t>(random.below(static_cast<int>(request.promptIds.size())))] = 5;
  if (random.below(3) == 0) request.sampling.topK = 7;
  if (random.below(4) == 0) request.sampling.stopIds = {11};
  return request;
}

void companyDoesNotMatter() {
  current = "a generation has the same bits in any company, whatever is remembered, evicted or computed again";
  check::Random random(17);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 60; ++i) requests.push_back(anyRequest(random));
  std::vector<GenerateResult> alone;
  for (const GenerateRequest& request : requests) {
    Client client(false, 1);
    alone.push_back(client.generate(request));
  }
  const int64_t block = Client().stats().kvBytesPerToken * 32;
  // room for everything, for a few sequences, and for the longest one alone
  for (const int64_t blocks : {1000, 9, 3}) {
    Client client(false, 2, blocks * block);
    std::vector<Client::Started> started;
    std::vector<size_t> which;
    std::vector<Client::Started> doomed;
    for (int i = 0; i < 150; ++i) {
      which.push_back(static_cast<size_t>(random.below(static_cast<int>(requests.size()))));
      started.push_back(client.start(requests[which.back()]));
      if (random.below(5) == 0) {
        doomed.push_back(client.start(requests[which.back()]));
        if (random.below(2) == 0) client.engine->cancel(doomed.back().ticket);
      }
      if (random.below(4) == 0) CHECK(client.stats().kvBytes <= blocks * block);
      if (random.below(10) == 0) CHECK(same(client.generate(requests[which.back()]), alone[which.back()]));
    }
    for (size_t i = 0; i < started.size(); ++i) {
      CHECK(started[i].wait() == "");
      CHECK(same(started[i].outcome->result, alone[which[i]]));
    }
    for (const Client::Started& one : doomed) client.engine->cancel(one.ticket);
    for (Client::Started& one : doomed) one.wait();
    const GenerationStats stats = client.stats();
    CHECK(stats.running == 0 && stats.waiting == 0 && stats.kvBytes <= blocks * block);
    CHECK(stats.sharedTokens > 0);
    if (blocks == 3) CHECK(stats.preemptions > 0);
  }
}

void knownBeginningsAreNotComputed() {
  current = "a prompt that begins as an earlier one, or goes on behind an earlier answer, computes the rest alone";
  Client client;
  const GenerateRequest first = requestOf(1, 40, 12);
  const GenerateResult answer = client.generate(first);
  const GenerationStats before = client.stats();
  CHECK(before.computedTokens == 40 + 11 && before.sharedTokens == 0);
  GenerateRequest next = first;
  next.promptIds.insert(next.promptIds.end(), answer.tokenIds.begin(), answer.tokenIds.end());
  next.promptIds.push_back(3);
  next.promptIds.push_back(4);
  const GenerateResult second = client.generate(next);
  const GenerationStats after = client.stats();
  // the last token of the answer was drawn, and never read
  CHECK(after.sharedTokens - before.sharedTokens == 40 + 11);
  CHECK(after.computedTokens - before.computedTokens == 3 + 11);
  Client other;
  CHECK(same(other.generate(next), second));
}

void groupsReadTheirPromptOnce() {
  current = "a group that asks the same prompt reads it once";
  Client client;
  std::vector<Client::Started> started;
  for (uint32_t seed = 0; seed < 8; ++seed) started.push_back(client.start(requestOf(seed, 50, 3)));
  for (Client::Started& one : started) CHECK(one.wait() == "");
  const GenerationStats stats = client.stats();
  CHECK(stats.sharedTokens == 7 * 49);
  CHECK(stats.computedTokens == 50 + 7 + 8 * 2);
}

void newWeightsShareNothing() {
  current = "ASYNC-04: nothing that other weights computed is taken over";
  Client client(true), other(true);
  const GenerateRequest request = requestOf(1, 60, 10);
  client.generate(request);
  const auto change = [](const Engine::Context& at) { at.network.initialise(at.compute, 8, 0.4); };
  CHECK(client.run(change) == "" && other.run(change) == "");
  const GenerateResult result = client.generate(request);
  CHECK(client.stats().sharedTokens == 0);
  CHECK(same(result, other.generate(request)));
}

void whatCannotFitIsRefused() {
  current = "a request that the memory of keys and values can never hold is refused before it runs";
  const int64_t block = Client().stats().kvBytesPerToken * 32;
  Client client(false, 2, 2 * block);
  CHECK(client.start(requestOf(1, 50, 20)).wait() == "ERR_KV_LIMIT");
  CHECK(client.generate(requestOf(1, 50, 14)).tokenIds.size() == 14);
}

void swappedWeightsAreRecorded() {
  current = "running generations that swap go on with the new weights, and say from which token on";
  Client client, other;
  Snapshot snapshot;
  CHECK(other.run([&](const Engine::Context& at) {
    at.network.initialise(at.compute, 8, 0.4);
    snapshot = at.network.snapshot();
  }) == "");
  const GenerateRequest request = requestOf(2, 12, 60);
  const GenerateResult before = client.generate(request);
  std::promise<void> begun, swapped;
  GenerateRequest heard = request;
  int draws = 0;
  heard.onDraw = [&](const Draw&) {
    if (++draws == 20) begun.set_value(), swapped.get_future().wait();
  };
  Client::Started running = client.start(heard);
  begun.get_future().wait();
  uint64_t version = 0;
  Client::Started adopting = client.startJob([&](const Engine::Context& at) {
    at.network.adopt(snapshot);
    at.moveGenerations(nullptr);
    version = at.network.version();
  });
  Client::Started late = client.start(request);
  swapped.set_value();
  CHECK(running.wait() == "" && adopting.wait() == "" && late.wait() == "");
  const GenerateResult& result = running.outcome->result;
  CHECK(result.tokenIds.size() == 60 && result.weights.size() == 2);
  CHECK(result.weights[0].version == before.weights[0].version && result.weights[0].from == 0);
  CHECK(result.weights[1].version == version && result.weights[1].from == 20);
  for (size_t i = 0; i < 20; ++i) CHECK(result.tokenIds[i] == before.tokenIds[i]);
  CHECK(result.logprobs != before.logprobs);
  CHECK(same(late.outcome->result, other.generate(request)) && late.outcome->result.weights.size() == 1);
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
  CHECK(early.outcome->result.weights[0].version != late.outcome->result.weights[0].version);
}

}  // namespace

int main() {
  neighboursDoNotMatter();
  sharedPromptsDoNotMatter();
  companyDoesNotMatter();
  knownBeginningsAreNotComputed();
  groupsReadTheirPromptOnce();
  newWeightsShareNothing();
  whatCannotFitIsRefused();
  swappedWeightsAreRecorded();
  logprobsAreThoseOfTheTrainer();
  limitsEndAGeneration();
  runningGenerationsKeepTheirWeights();
  return check::close("generation");
}
