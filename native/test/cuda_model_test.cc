// Whole models on the emulated device, in float32 and bfloat16: against the processor's model in double, and against the
// recorded cases, which are float64 truth.
#include "cuda/model.h"

#include "cuda_cases.h"
#include "cuda_test.h"
#include "models.h"
#include "primerl/model.h"

using namespace primerl;
using device::Results;

namespace {

cuda::Context context;
const Counts counts{20, 12, 9};
const Cancel* const never = nullptr;

struct Limits {
  const char* name;
  bool bfloat16;
  /** largest difference of a log-probability or an entropy */
  double logprob;
  /** relative, of one gradient tensor or its norm */
  double gradient;
  /** largest difference of a weight after a step of size 1e-3 */
  double weight;
  /** of a log-probability after that step, which moves them by up to 10: a first step of AdamW is the sign of the gradient */
  double afterStep;
};

const Limits precisions[] = {{"float32", false, 2e-5, 1e-5, 1e-6, 1e-3}, {"bfloat16", true, 0.2, 0.06, 2.1e-3, 1}};

std::vector<float> gradientsOf(DeviceModel& model, const Layout& layout) {
  std::vector<float> gradients(size_t(layout.total()));
  model.readGradients(0, layout.total(), gradients.data());
  return gradients;
}

std::unique_ptr<DeviceModel> open(const ModelConfig& config, const Limits& limits, const std::vector<float>& weights,
                                  bool recompute = false) {
  std::unique_ptr<DeviceModel> model = cuda::makeModel(config, context, {limits.bfloat16, true, recompute});
  model->writeWeights(0, int64_t(weights.size()), weights.data());
  return model;
}

struct Exact {
  std::vector<double> logprobs, entropy, gradients;
  LossSums sums;
};

Exact exactly(const ModelConfig& config, const Batch& batch) {
  Pool pool(1);
  const Compute compute{pool, Isa::scalar};
  Model<double> model(config);
  const std::vector<double> weights = models::weights<double>(model.layout(), 8);
  const size_t n = size_t(batch.tokens);
  Exact exact{std::vector<double>(n), std::vector<double>(n), std::vector<double>(weights.size(), 0.0), {}};
  const std::vector<uint8_t> needed = neededTokens(batch);
  model.forwardBackward(
      compute, weights.data(), batch, needed.data(),
      [&](int64_t t, double logprob) { return tokenLoss(batch, {}, counts, t, logprob, exact.sums); },
      exact.gradients.data(), exact.logprobs.data(), exact.entropy.data());
  return exact;
}

void families(const Limits& limits) {
  for (const models::Named& named : models::families()) {
    const std::string name = std::string(named.name) + " " + limits.name;
    const Layout layout(named.config);
    const models::Sample sample(named.config, {30, 1, 75, 2, 7}, 11);
    const Batch batch = sample.batch();
    const size_t n = size_t(batch.tokens);
    const Exact exact = exactly(named.config, batch);
    const std::vector<float> weights = models::weights<float>(layout, 8);
    const Results results = device::everySchedule(name, [&]() -> Results {
      const std::unique_ptr<DeviceModel> model = open(named.config, limits, weights);
      std::vector<float> logprobs(n), entropy(n), again(n), more(n), slopes(n, 0.0f);
      const LossSums sums = model->forwardBackward(batch, counts, {}, logprobs.data(), entropy.data(), never);
      const std::vector<float> gradients = gradientsOf(*model, layout);
      check::below(std::abs(sums.rl - exact.sums.rl) + std::abs(sums.ce - exact.sums.ce) +
                       std::abs(sums.refKl - exact.sums.refKl),
                   limits.logprob, name + ": loss");
      // in two phases, of a forward pass that was asked for all tokens
      model->zeroGradients();
      model->forward(batch, nullptr, again.data(), more.data(), never);
      const std::vector<uint8_t> needed = neededTokens(batch);
      LossSums twice;
      for (size_t t = 0; t < n; t++) {
        if (needed[t] == 0) continue;
        slopes[t] = float(tokenLoss(batch, {}, counts, int64_t(t), double(again[t]), twice));
        check::that(again[t] == logprobs[t], name + ": the same log-probabilities in both ways");
      }
      model->backward(slopes.data(), never);
      check::that(check::sameBits(gradientsOf(*model, layout), gradients), name + ": forward, then backward");
      const std::unique_ptr<DeviceModel> sparing = open(named.config, limits, weights, true);
      sparing->forwardBackward(batch, counts, {}, again.data(), more.data(), never);
      check::that(check::sameBits(gradientsOf(*sparing, layout), gradients), name + ": computing again changes no bit");
      return {logprobs, entropy, gradients};
    });
    check::below(check::largestDifference(results[0], exact.logprobs), limits.logprob, name + ": log-probabilities");
    check::below(check::largestDifference(results[1], exact.entropy), limits.logprob, name + ": entropy");
    for (const TensorSpec& tensor : layout.tensors()) {
      const auto part = [&](const auto& all) {
        return std::vector<double>(all.begin() + tensor.offset, all.begin() + tensor.offset + tensor.count);
      };
      check::below(check::relative(part(results[2]), part(exact.gradients)), limits.gradient,
                   name + ": gradient of " + tensor.name);
    }
  }
}

/** PACK-03, and packing: a sequence has the same bits alone and among others. */
void neighboursAreInvisible(const Limits& limits) {
  const ModelConfig config = models::base();
  const Layout layout(config);
  const std::unique_ptr<DeviceModel> model = open(config, limits, models::weights<float>(layout, 8));
  const models::Sample sample(config, {9, 40}, 13);
  std::vector<float> packed(49), alone(40), entropy(49);
  model->score(sample.batch(), nullptr, packed.data(), entropy.data(), never);
  model->score(sample.part(1, 2).batch(), nullptr, alone.data(), entropy.data(), never);
  check::that(std::equal(alone.begin(), alone.end(), packed.begin() + 9),
              std::string("PACK-03 a neighbour changes nothing, ") + limits.name);
}

void refusals() {
  const ModelConfig config = models::base();
  const Layout layout(config);
  const std::unique_ptr<DeviceModel> model = open(config, precisions[0], models::weights<float>(layout, 8));
  models::Sample sample(config, {5, 3}, 16);
  std::vector<float> out(8), more(8), slopes(8, 0.0f);
  check::throws("ERR_STATE", [&] { model->backward(slopes.data(), never); }, "backward without forward");
  std::vector<uint8_t> needed(8, 0);
  needed[2] = 1;
  model->forward(sample.batch(), needed.data(), out.data(), more.data(), never);
  slopes[3] = 1;
  check::throws("ERR_BATCH", [&] { model->backward(slopes.data(), never); }, "a gradient of what was not asked for");
  sample.ids[3] = 53;
  check::throws("ERR_BATCH", [&] { model->score(sample.batch(), nullptr, out.data(), more.data(), never); },
                "an id outside the vocabulary");
  sample.ids[3] = 0;
  Cancel stop;
  stop.cancel();
  check::throws("ERR_CANCELLED", [&] { model->score(sample.batch(), nullptr, out.data(), more.data(), &stop); },
                "a cancelled score");
  // nothing asked for: no head, and no gradient
  needed.assign(8, 0);
  model->forward(sample.batch(), needed.data(), out.data(), more.data(), never);
  slopes.assign(8, 0.0f);
  model->backward(slopes.data(), never);
  const std::vector<float> gradients = gradientsOf(*model, layout);
  check::that(std::all_of(gradients.begin(), gradients.end(), [](float g) { return g == 0; }), "no member, no gradient");
  ModelConfig wide = config;
  wide.headDim = 512;
  check::throws("ERR_CONFIG", [&] { cuda::makeModel(wide, context, {}); }, "heads that are too wide");
  const std::vector<float> broken(size_t(layout.total()), NAN);
  std::vector<float> before(broken.size()), after(broken.size());
  int64_t steps = 3;
  model->writeWeights(0, layout.total(), broken.data());
  model->forwardBackward(sample.batch(), counts, {}, out.data(), more.data(), never);
  const AdamWReport report = model->optimizerStep({}, steps);
  check::that(!report.applied && steps == 3, "a gradient that is not finite takes no step");
}

double norm(const std::vector<float>& values, const TensorSpec& tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.count; i++) sum += double(values[size_t(tensor.offset + i)]) * values[size_t(tensor.offset + i)];
  return std::sqrt(sum);
}

/** Forward, loss, gradients and one step of the optimiser, as they were recorded. */
void recorded(const std::string& folder, const std::string& model, const Limits& limits) {
  const std::string what = model + " " + limits.name + ": ";
  const cases::Json record = cases::readJson(folder + "/" + model + "/expected.json");
  const ModelConfig config = cases::modelConfig(cases::readJson(folder + "/" + model + "/config.json"));
  const Layout layout(config);
  const std::vector<float> weights = cases::readWeights(folder + "/" + model + "/model.safetensors", layout);
  models::Sample sample;
  sample.ids = record.at("tokenIds").numbers<int32_t>();
  sample.lengths = record.at("sequenceLengths").numbers<int32_t>();
  sample.temperatures = record.at("temperatures").numbers<float>();
  sample.mask = record.at("lossMask").numbers<uint8_t>();
  sample.logprobs = record.at("inferenceLogprobs").numbers<float>();
  sample.advantages = record.at("advantages").numbers<float>();
  sample.reference = record.at("referenceLogprobs").numbers<float>();
  sample.rl = record.at("rlWeights").numbers<float>();
  sample.ce = record.at("ceWeights").numbers<float>();
  sample.refKl = record.at("refKlWeights").numbers<float>();
  const cases::Json& global = record.at("counts");
  const Counts members{global.at("rl").number, global.at("ce").number, global.at("refKl").number};
  const cases::Json &expected = record.at("expected"), &after = record.at("afterStep"), &how = record.at("optimizer");
  AdamW options;
  options.learningRate = how.at("lr").number;
  options.beta1 = how.at("betas").list[0].number;
  options.beta2 = how.at("betas").list[1].number;
  options.eps = how.at("eps").number;
  options.weightDecay = how.at("weightDecay").number;
  options.maxGradNorm = how.at("maxGradNorm").number;
  check::that(record.at("loss").at("type").text == "dppo", what + "the loss is dppo");

  const size_t n = sample.ids.size();
  const Results results = device::everySchedule(what + "case", [&]() -> Results {
    const std::unique_ptr<DeviceModel> trained = open(config, limits, weights);
    std::vector<float> scores(n), entropy(n), some(n), more(n), later(n), moved(weights.size());
    trained->score(sample.batch(), nullptr, scores.data(), entropy.data(), never);
    const LossSums sums = trained->forwardBackward(sample.batch(), members, {}, some.data(), more.data(), never);
    const std::vector<float> gradients = gradientsOf(*trained, layout);
    int64_t steps = 0;
    const AdamWReport report = trained->optimizerStep(options, steps);
    trained->readWeights(0, layout.total(), moved.data());
    trained->score(sample.batch(), nullptr, later.data(), more.data(), never);
    return {scores, entropy, gradients, moved, later,
            {float(sums.rl + sums.ce + sums.refKl), float(report.gradNorm), float(report.applied)}};
  });
  check::below(check::largestDifference(results[0], expected.at("logprobs").numbers<double>()), limits.logprob,
               what + "log-probabilities");
  check::below(check::largestDifference(results[1], expected.at("entropy").numbers<double>()), limits.logprob,
               what + "entropy");
  check::below(std::abs(results[5][0] - expected.at("loss").number), limits.logprob, what + "loss");
  const double gradNorm = expected.at("gradNorm").number;
  check::below(std::abs(results[5][1] - gradNorm) / gradNorm, limits.gradient, what + "gradient norm");
  check::that(results[5][2] == 1, what + "the step is taken");
  for (const TensorSpec& tensor : layout.tensors()) {
    const double truth = expected.at("gradients").at(tensor.name).at("norm").number;
    check::below(std::abs(norm(results[2], tensor) - truth) / std::max(truth, 1e-2), limits.gradient,
                 what + "gradient of " + tensor.name);
    const std::vector<double> first = after.at("parameters").at(tensor.name).at("first").numbers<double>();
    for (size_t i = 0; i < first.size(); i++) {
      check::below(std::abs(results[3][size_t(tensor.offset) + i] - first[i]), limits.weight,
                   what + "weights after a step, " + tensor.name);
    }
  }
  check::below(check::largestDifference(results[4], after.at("logprobs").numbers<double>()), limits.afterStep,
               what + "log-probabilities after a step");
}

}  // namespace

int main(int, char** arguments) {
  for (const Limits& limits : precisions) {
    families(limits);
    neighboursAreInvisible(limits);
    for (const char* model : {"qwen3-tied", "qwen2-untied", "llama-rope-scaled"}) {
      recorded(std::string(arguments[1]) + "/../../test/data/cases/models", model, limits);
    }
  }
  refusals();
  return check::close("cuda models");
}
