// The engine as its callers see it: everything that was asked for ends exactly once, and a stopped job leaves nothing half
// done that could be trained on.
#include <cmath>
#include <limits>

#include "client.h"

using namespace client;

namespace {

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
  snapshotsDoNotChange();
  gradientsThatAreNotFiniteAreSkipped();
  aStoppedBackwardIsNotTrainedOn();
  cancellingEndsAtOnce();
  closingEndsEverything();
  return check::close("engine");
}
