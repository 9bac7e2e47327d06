#include "primerl/loss.h"

#include <limits>

#include "expect.h"

using namespace primerl;

namespace {

/** One batch that owns its streams. */
struct Streams {
  std::vector<int32_t> lengths;
  std::vector<uint8_t> mask;
  std::vector<float> trainer, logprobs, advantages, reference, rl, ce, refKl;

  explicit Streams(std::vector<int32_t> sequenceLengths, unsigned seed) : lengths(std::move(sequenceLengths)) {
    check::Random random(seed);
    size_t count = 0;
    for (const int32_t length : lengths) count += size_t(length);
    for (size_t i = 0; i < count; i++) {
      mask.push_back(random.uniform() < 0.6);
      trainer.push_back(float(-3 * random.uniform() - 0.01));
      logprobs.push_back(trainer.back() + float(0.5 * random.normal()));
      if (logprobs.back() > 0) logprobs.back() = -0.01f;
      reference.push_back(float(-3 * random.uniform()));
      advantages.push_back(float(random.normal()));
      rl.push_back(random.uniform() < 0.3 ? 0.0f : float(random.uniform()));
      ce.push_back(random.uniform() < 0.5 ? 0.0f : 0.3f);
      refKl.push_back(random.uniform() < 0.5 ? 0.0f : 0.7f);
    }
  }

  Batch batch(bool weights) const {
    Batch view;
    view.tokens = int64_t(mask.size());
    view.sequences = int64_t(lengths.size());
    view.sequenceLengths = lengths.data();
    view.mask = mask.data();
    view.logprobs = logprobs.data();
    view.advantages = advantages.data();
    view.referenceLogprobs = reference.data();
    if (weights) {
      view.rlWeights = rl.data();
      view.ceWeights = ce.data();
      view.refKlWeights = refKl.data();
    }
    return view;
  }
};

const Counts counts{11, 7, 5};

double total(const LossSums& sums) { return sums.rl + sums.ce + sums.refKl; }

/** Central differences in double, with the pull of refKl held constant as its formula says. */
void slopesAreSlopes(RlKernel kernel) {
  const Streams streams({9, 1, 20, 5}, 3);
  LossSpec spec;
  spec.kernel = kernel;
  spec.klTau = 0.3;
  for (int kind = 0; kind < 3; kind++) {
    Batch batch = streams.batch(true);
    const std::vector<float> zeros(streams.mask.size(), 0.0f);
    if (kind != 0) batch.rlWeights = zeros.data();
    if (kind != 1) batch.ceWeights = nullptr;
    if (kind != 2) batch.refKlWeights = nullptr;
    const std::vector<uint8_t> needed = neededTokens(batch);
    double worst = 0;
    for (int64_t t = 0; t < batch.tokens; t++) {
      if (needed[size_t(t)] == 0) continue;
      const double x = streams.trainer[size_t(t)], h = 1e-6;
      LossSums up, down, at;
      const double slope = tokenLoss(batch, spec, counts, t, x, at);
      tokenLoss(batch, spec, counts, t, x + h, up);
      tokenLoss(batch, spec, counts, t, x - h, down);
      double numeric = (total(up) - total(down)) / (2 * h);
      if (kind == 2) {
        const double inference = streams.logprobs[size_t(t)], ratio = std::exp(x - inference);
        const bool kept = std::exp(x) - std::exp(inference) >= -0.2;
        if (kept) numeric -= double(streams.refKl[size_t(t)]) / counts.refKl * ratio;
      }
      worst = std::max(worst, std::abs(slope - numeric));
    }
    check::below(worst, 1e-7, "slope of component " + std::to_string(kind));
  }
}

void goldenValues() {
  const std::vector<int32_t> lengths{6};
  const std::vector<uint8_t> mask{0, 1, 1, 1, 1, 1};
  const std::vector<float> trainer{0, -.2f, -.1f, -1.5f, -2, -.5f}, inference{0, -.7f, -.4f, -.5f, -2, -.5f};
  const std::vector<float> advantages{0, 1, 1, -1, -1, 0}, weights{0, .5f, 2, 1, 1, 1};
  const std::vector<float> reference{0, -.3f, -.3f, -.3f, -1, -.5f}, none(6, 0.0f), ones{0, 1, 1, 1, 1, 1};
  Batch batch;
  batch.tokens = 6;
  batch.sequences = 1;
  batch.sequenceLengths = lengths.data();
  batch.mask = mask.data();
  batch.logprobs = inference.data();
  batch.advantages = advantages.data();
  const Counts one{1, 1, 1};
  std::vector<float> gradient(6);
  LossSpec ipo;
  ipo.kernel = RlKernel::ipo;
  check::below(std::abs(packedLoss(batch, {}, one, trainer.data(), gradient.data()).rl - 1.00134), 1e-6, "dppo");
  check::below(std::abs(packedLoss(batch, ipo, one, trainer.data(), gradient.data()).rl - 1.00134), 1e-6, "ipo");
  batch.rlWeights = weights.data();
  check::below(std::abs(packedLoss(batch, {}, one, trainer.data(), gradient.data()).rl - 1.001305), 1e-6,
               "dppo with weights");
  batch.rlWeights = none.data();
  batch.refKlWeights = ones.data();
  batch.referenceLogprobs = reference.data();
  const LossSums sums = packedLoss(batch, {}, one, trainer.data(), gradient.data());
  check::below(std::abs(sums.refKl + 0.563816), 1e-6, "refKl");
  check::that(sums.rl == 0 && sums.ce == 0, "other components are empty");

  // 0.5·0.2 + 2·0.1 + 1.5, over a count of 2; a token outside the mask counts, one of weight 0 does not.
  const std::vector<float> ce{9, .5f, 2, 1, 0, 0};
  const std::vector<uint8_t> nothing(6, 0);
  batch.mask = nothing.data();
  batch.refKlWeights = nullptr;
  batch.ceWeights = ce.data();
  const LossSums weighted = packedLoss(batch, {}, {1, 2, 1}, trainer.data(), gradient.data());
  check::below(std::abs(weighted.ce - 0.9), 1e-6, "ce with weights");
  check::below(std::abs(gradient[2] + 1.0), 1e-6, "slope of a ce member");
  check::that(gradient[0] == 0 && gradient[4] == 0 && weighted.rl == 0 && weighted.refKl == 0, "ce alone");
}

void skippedTokensCannotHarm() {
  Streams streams({8, 4}, 5);
  for (size_t i = 0; i < streams.mask.size(); i++) {
    if (i % 3 != 0) continue;
    streams.mask[i] = 0;
    streams.ce[i] = 0;
    streams.refKl[i] = 0;
  }
  std::vector<float> clean(streams.mask.size()), dirty(streams.mask.size());
  const LossSums before = packedLoss(streams.batch(true), {}, counts, streams.trainer.data(), clean.data());
  const float infinity = std::numeric_limits<float>::infinity(), bad[] = {99, -1e4f, infinity, NAN};
  for (size_t i = 0; i < streams.mask.size(); i += 3) {
    streams.trainer[i] = bad[i % 4];
    streams.logprobs[i] = bad[(i + 1) % 4];
    streams.advantages[i] = bad[(i + 2) % 4];
    streams.reference[i] = NAN;
  }
  const LossSums after = packedLoss(streams.batch(true), {}, counts, streams.trainer.data(), dirty.data());
  check::that(check::sameBits(clean, dirty), "gradients do not see skipped tokens");
  check::that(before.rl == after.rl && before.ce == after.ce && before.refKl == after.refKl,
              "sums do not see skipped tokens");
}

void noAdvantageHasNoPolicyTerm() {
  Streams streams({4}, 11);
  streams.mask.assign(4, 1);
  streams.advantages.assign(4, 0.0f);
  streams.logprobs.assign(4, -1000.0f);
  std::vector<float> gradient(4);
  for (const RlKernel kernel : {RlKernel::dppo, RlKernel::ipo, RlKernel::ppoClip, RlKernel::cispo, RlKernel::icepop,
                                RlKernel::importanceSampling}) {
    LossSpec spec;
    spec.kernel = kernel;
    spec.threshold = 1;
    const bool penalised = kernel == RlKernel::dppo || kernel == RlKernel::ipo;
    const LossSums sums = packedLoss(streams.batch(false), spec, counts, streams.trainer.data(), gradient.data());
    bool finite = std::isfinite(sums.rl) && (penalised ? sums.rl > 0 : sums.rl == 0);
    for (const float slope : gradient) finite = finite && std::isfinite(slope);
    check::that(finite, "an advantage of 0 leaves the penalty alone, even where the ratio overflows");
  }
}

/** Two tokens far off, of either sign, and one near: what is bounded stays so where the ratio is infinite. */
void overflowIsBounded() {
  Streams streams({4}, 13);
  streams.mask.assign(4, 1);
  streams.trainer = {0, -1, -1, -1};
  streams.logprobs = {0, -1000, -1000, -1.1f};
  std::vector<float> gradient(4);
  const auto of = [&](RlKernel kernel, float second) {
    streams.advantages = {0, 1, second, 1};
    LossSpec spec;
    spec.kernel = kernel;
    return packedLoss(streams.batch(false), spec, {1, 1, 1}, streams.trainer.data(), gradient.data()).rl;
  };
  const double near = -std::exp(double(-1.0f) - double(-1.1f));
  check::below(std::abs(of(RlKernel::ppoClip, 1) - (near - 2.4)), 1e-12, "a clipped rise is a constant");
  check::that(gradient[1] == 0 && gradient[2] == 0, "a clipped rise has no slope");
  check::that(std::isinf(of(RlKernel::ppoClip, -1)), "what the clip does not bound is not hidden");
  check::below(std::abs(of(RlKernel::cispo, -1) + std::exp(double(-1.0f) - double(-1.1f)) * -1), 1e-12, "cispo");
  check::that(gradient[1] == -1.2f && gradient[2] == 1.2f, "cispo bounds the weight and keeps the slope");
  check::below(std::abs(of(RlKernel::icepop, -1) - near), 1e-12, "icepop leaves them out");
  check::that(gradient[1] == 0 && gradient[2] == 0 && gradient[3] != 0, "icepop leaves their slope out");
}

void membership() {
  Streams streams({3, 1, 2}, 7);
  streams.mask.assign(6, 1);
  streams.ce.assign(6, 1.0f);
  const std::vector<uint8_t> expected{0, 1, 1, 0, 0, 1};
  check::that(neededTokens(streams.batch(true)) == expected, "a first token is a member of nothing");
  streams.mask.assign(6, 0);
  check::that(neededTokens(streams.batch(true)) == expected, "ce does not ask the mask");
  check::that(neededTokens(streams.batch(false)) == std::vector<uint8_t>(6, 0), "absent streams are no component");
  std::vector<float> ones(6, 1.0f), gradient(6), same(6);
  streams.mask.assign(6, 1);
  Batch plain = streams.batch(false), weighted = plain;
  weighted.rlWeights = ones.data();
  packedLoss(plain, {}, counts, streams.trainer.data(), gradient.data());
  packedLoss(weighted, {}, counts, streams.trainer.data(), same.data());
  check::that(check::sameBits(gradient, same), "absent rl weights are ones");
  packedLoss(plain, {}, {0, 0, 0}, streams.trainer.data(), gradient.data());
  check::that(std::isfinite(gradient[1]), "a count of 0 divides by 1");
}

}  // namespace

int main() {
  slopesAreSlopes(RlKernel::dppo);
  slopesAreSlopes(RlKernel::ipo);
  slopesAreSlopes(RlKernel::ppoClip);
  slopesAreSlopes(RlKernel::icepop);
  slopesAreSlopes(RlKernel::importanceSampling);
  goldenValues();
  skippedTokensCannotHarm();
  noAdvantageHasNoPolicyTerm();
  overflowIsBounded();
  membership();
  return check::close("loss");
}
