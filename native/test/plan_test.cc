// What the plan says is what a model takes.
#include "models.h"
#include "primerl/loss.h"
#include "primerl/model.h"
#include "primerl/plan.h"

using namespace primerl;

namespace {

void againstModel(const models::Named& named, bool recompute, Precision precision) {
  Pool pool(2);
  const Compute compute{pool, detectIsa(), nullptr, precision, precision};
  const models::Sample sample(named.config, {300, 1, 75, 120}, 3);
  const Batch batch = sample.batch();
  Model<float> model(named.config, {recompute});
  const std::vector<float> weights = models::weights<float>(model.layout(), 8);
  std::vector<float> gradients(weights.size()), logprobs(size_t(batch.tokens)), entropy(logprobs.size());
  model.forwardBackward(compute, weights.data(), batch, nullptr, [](int64_t, double) { return 1.0; }, gradients.data(),
                        logprobs.data(), entropy.data());
  PlanOptions options;
  options.trainable = true;
  options.recompute = recompute;
  options.isa = compute.isa;
  options.precision = options.headPrecision = precision;
  options.threads = 2;
  options.tokens = batch.tokens;
  const MemoryPlan plan = memoryPlan(named.config, options);
  const std::string name = std::string(named.name) + (recompute ? " recomputing" : "");
  check::that(plan.weights == int64_t(weights.size() * sizeof(float)), name + ": weights");
  check::that(plan.gradients == plan.weights && plan.optimizer == 2 * plan.weights, name + ": gradients and moments");
  // the first rows of sequences are planned for, and are not wanted in the last layer
  const double kept = double(model.keptBytes()), scratch = double(model.scratchBytes());
  check::that(kept <= double(plan.activations) && kept >= 0.9 * double(plan.activations), name + ": activations");
  check::that(scratch <= double(plan.workspace), name + ": workspace");
  PlanOptions longer = options;
  longer.tokens *= 2;
  check::that(memoryPlan(named.config, longer).activations == 2 * plan.activations, name + ": twice the tokens");
  options.trainable = false;
  check::that(memoryPlan(named.config, options).total() < plan.total(), name + ": scoring takes less");
}

}  // namespace

int main() {
  for (const models::Named& named : models::families()) {
    for (const bool recompute : {false, true}) {
      for (const Precision precision : {Precision::float32, Precision::bfloat16}) againstModel(named, recompute, precision);
    }
  }
  return check::close("plan");
}
