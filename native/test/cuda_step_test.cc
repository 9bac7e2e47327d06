// Losses, optimiser and draws on the device against those of the processor, under every schedule.
#include "cuda/adamw.cuh"
#include "cuda/loss.cuh"
#include "cuda/sampling.cuh"
#include "cuda_test.h"
#include "sampler.h"

using namespace primerl;
using cuda::DeviceBuffer;
using device::List;
using device::near;
using device::Results;
using Vec = std::vector<double>;

namespace {

cuda::Context context;
Pool pool(1);
const Compute compute{pool, Isa::scalar};

void losses() {
  check::Random random(8);
  const int64_t count = 300;
  const std::vector<int32_t> lengths{int32_t(count)};
  std::vector<uint8_t> mask;
  std::vector<float> trainer, sampled, advantages, reference, rl, ce, refKl;
  for (int64_t i = 0; i < count; i++) {
    mask.push_back(random.uniform() < 0.7);
    trainer.push_back(float(-3 * random.uniform() - 0.01));
    sampled.push_back(trainer.back() + float(0.5 * random.normal()));
    reference.push_back(float(-3 * random.uniform()));
    advantages.push_back(float(random.normal()));
    rl.push_back(random.uniform() < 0.3 ? 0.0f : float(random.uniform()));
    ce.push_back(random.uniform() < 0.5 ? 0.0f : 0.3f);
    refKl.push_back(random.uniform() < 0.5 ? 0.0f : 0.7f);
  }
  Batch batch;
  batch.tokens = count;
  batch.sequences = 1;
  batch.sequenceLengths = lengths.data();
  batch.mask = mask.data();
  batch.logprobs = sampled.data();
  batch.advantages = advantages.data();
  batch.referenceLogprobs = reference.data();
  batch.ceWeights = ce.data();
  batch.refKlWeights = refKl.data();
  const std::vector<uint8_t> needed = neededTokens(batch);
  std::vector<cuda::HeadTarget> targets;
  Vec some;
  for (int32_t t = 0; t < count; t++) {
    if (needed[size_t(t)] == 0) continue;
    targets.push_back({t - 1, 0, t, 1});
    some.push_back(trainer[size_t(t)]);
  }
  const int64_t members = int64_t(targets.size());
  const Counts counts{100, 60, 40};
  for (const RlKernel kernel : {RlKernel::dppo, RlKernel::ipo, RlKernel::ppoClip, RlKernel::cispo, RlKernel::icepop,
                                RlKernel::importanceSampling}) {
    LossSpec spec;
    spec.kernel = kernel;
    for (const bool weighted : {false, true}) {
      batch.rlWeights = weighted ? rl.data() : nullptr;
      std::vector<float> gradient(size_t(count), 0.0f);
      // members of the unweighted rl component are those of `needed`; the weighted one has fewer
      LossSums expected;
      for (const cuda::HeadTarget& target : targets) {
        gradient[size_t(target.token)] =
            float(tokenLoss(batch, spec, counts, target.token, trainer[size_t(target.token)], expected));
      }
      const Results results = device::everySchedule("losses", [&]() -> Results {
        DeviceBuffer<uint8_t> onMask;
        DeviceBuffer<float> streams[6];
        DeviceBuffer<cuda::HeadTarget> onTargets;
        DeviceBuffer<LossSums> terms, sums;
        Batch onDevice = batch;
        onDevice.mask = onMask.fill(context, mask);
        onDevice.logprobs = streams[0].fill(context, sampled);
        onDevice.advantages = streams[1].fill(context, advantages);
        onDevice.referenceLogprobs = streams[2].fill(context, reference);
        onDevice.ceWeights = streams[3].fill(context, ce);
        onDevice.refKlWeights = streams[4].fill(context, refKl);
        if (weighted) onDevice.rlWeights = streams[5].fill(context, rl);
        List<float> logprobs(context, some), slopes(context, members);
        cuda::tokenLosses(context, members, onTargets.fill(context, targets), onDevice, spec, counts, logprobs.data(),
                          slopes.data(), terms.need(members), sums.need(1));
        const LossSums total = sums.toHost(context, 1)[0];
        check::below(std::abs(total.rl - expected.rl) + std::abs(total.ce - expected.ce) +
                         std::abs(total.refKl - expected.refKl),
                     1e-10, "loss sums");
        return {slopes.values()};
      });
      double worst = 0;
      for (size_t i = 0; i < targets.size(); i++) {
        worst = std::max(worst, double(std::abs(results[0][i] - gradient[size_t(targets[i].token)])));
      }
      check::below(worst, 1e-8, "slopes of losses");
    }
  }
}

void optimiser() {
  check::Random random(9);
  const int64_t count = 2 * cuda::squaresPerBlock + 77;
  std::vector<float> weights = random.normals<float>(size_t(count)), gradients = random.normals<float>(size_t(count));
  std::vector<float> first = random.normals<float>(size_t(count), 0.1), second(first.size());
  for (float& value : second) value = float(random.uniform());
  const auto doubles = [](const std::vector<float>& list) { return Vec(list.begin(), list.end()); };
  const Vec startWeights = doubles(weights), startFirst = doubles(first), startSecond = doubles(second);
  AdamW options;
  options.maxGradNorm = 1;
  options.weightDecay = 0.1;
  int64_t steps = 4;
  AdamWStep step;
  const double norm = globalNorm(compute, gradients.data(), count);
  check::that(adamwNumbers<float>(options, steps, norm, step), "the numbers of a step are finite");
  const Vec onGradients = doubles(gradients);
  adamwStep(compute, options, count, weights.data(), gradients.data(), first.data(), second.data(), steps);
  const Results results = device::everySchedule("AdamW", [&]() -> Results {
    List<float> w(context, startWeights), g(context, onGradients), m(context, startFirst), v(context, startSecond);
    DeviceBuffer<double> scratch;
    check::below(std::abs(cuda::globalNorm(context, count, g.data(), scratch) - norm), 1e-9 * norm, "gradient norm");
    cuda::adamw(context, count, step, w.data(), g.data(), m.data(), v.data());
    return {w.values(), m.values(), v.values()};
  });
  near<float>(results[0], doubles(weights), "AdamW weights");
  near<float>(results[1], doubles(first), "AdamW first moment");
  near<float>(results[2], doubles(second), "AdamW second moment");
}

void draws(int64_t vocab) {
  check::Random random(10);
  const int64_t count = 40;
  Vec logits;
  std::vector<cuda::SamplingRow> rows;
  std::vector<Draw> expected;
  Sampler sampler;
  for (int64_t i = 0; i < count; i++) {
    std::vector<float> row;
    // a grid, so that some logits are equal
    for (int64_t v = 0; v < vocab; v++) row.push_back(float(std::round(8 * random.normal()) / 4));
    Sampling sampling;
    sampling.temperature = i % 7 == 0 ? 0.0f : i % 3 == 0 ? 0.6f : 1.3f;
    sampling.topK = i % 4 == 1 ? 1 + random.below(int(vocab) + 3) : 0;
    sampling.topP = i % 4 == 2 || i % 8 == 1 ? float(random.uniform()) : 1.0f;
    sampling.minP = i % 8 >= 6 ? 0.2f : 0.0f;
    sampling.seed = uint32_t(100 + i);
    expected.push_back(sampler.draw(Isa::scalar, row.data(), vocab, sampling, uint32_t(i)));
    rows.push_back({sampling.temperature, sampling.topP, sampling.minP, sampling.topK, sampling.seed, uint64_t(i)});
    logits.insert(logits.end(), row.begin(), row.end());
  }
  Vec broken = logits;
  broken[size_t(vocab - 1)] = NAN;
  broken[size_t(vocab)] = INFINITY;
  const Results results = device::everySchedule("draws", [&]() -> Results {
    List<float> onLogits(context, logits), onBroken(context, broken), probabilities(context, count * vocab);
    DeviceBuffer<cuda::SamplingRow> onRows;
    DeviceBuffer<cuda::Drawn> drawn;
    onRows.fill(context, rows);
    std::vector<float> ids, logprobs;
    for (List<float>* list : {&onLogits, &onBroken}) {
      cuda::sample(context, count, vocab, list->data(), onRows.data(), probabilities.data(), drawn.need(count));
      for (const cuda::Drawn& draw : drawn.toHost(context, count)) {
        ids.push_back(float(draw.id));
        logprobs.push_back(draw.logprob);
      }
    }
    return {ids, logprobs};
  });
  bool same = true;
  double worst = 0;
  for (size_t i = 0; i < size_t(count); i++) {
    same = same && int32_t(results[0][i]) == expected[i].id;
    worst = std::max(worst, double(std::abs(results[1][i] - expected[i].logprob)));
  }
  check::that(same, "draws are the processor's, of " + std::to_string(vocab));
  check::below(worst, 2e-6, "log-probabilities of draws");
  check::that(results[0][size_t(count)] == -1 && results[0][size_t(count) + 1] == -1 && results[0][size_t(count) + 2] >= 0,
              "logits that are not finite are told");
}

}  // namespace

int main() {
  losses();
  optimiser();
  draws(1);
  draws(37);
  draws(700);
  return check::close("cuda losses, optimiser and draws");
}
