// Passes under an adapter: gradients by finite differences and by merged weights, masks, and what they take.
#include "primerl/lora.h"

#include <algorithm>

#include "adapters.h"
#include "primerl/loss.h"
#include "primerl/model.h"
#include "primerl/plan.h"

using namespace primerl;
using adapters::everywhere;

namespace {

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
  models::holdSlopes(layout.tensors(), values, gradients, random, loss,
                     std::string(named.name) + (dropout > 0 ? " dropping" : ""));
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
  return check::close("lora");
}
