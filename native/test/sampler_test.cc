// Draws: what is drawn follows the distribution, what is reported is its log-probability, and the same place of the same
// seed gives the same bits everywhere.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "expect.h"
#include "primerl/error.h"
#include "random.h"
#include "sampler.h"

using namespace primerl;

namespace {

Isa isa = Isa::scalar;

void randomNumbersAreTheSameOnEveryMachine() {
  current = "random numbers are the same on every machine";
  CHECK(randomBits(1, 2, 3) != randomBits(1, 3, 2));
  double pair[2];
  normalPair(42, 1, 0, pair);
  CHECK(pair[0] == -0x1.ddb00cdd3480cp+0);
  CHECK(pair[1] == -0x1.ba19710674895p-6);
  CHECK(randomBits(42, 1, 0) == 0x2ce02c4ee4d2ea09ULL);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int n = 200000;
  for (int i = 0; i < n / 2; ++i) {
    normalPair(9, 5, static_cast<uint64_t>(i), pair);
    for (const double x : pair) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
  }
  CHECK(std::fabs(sum / n) < 0.01);
  CHECK(std::fabs(squares / n - 1) < 0.02);
  CHECK(std::fabs(fourth / n - 3) < 0.1);
  double mean = 0;
  for (int i = 0; i < n; ++i) {
    const double u = uniform(3, 0, static_cast<uint64_t>(i));
    CHECK(u >= 0 && u < 1);
    mean += u / n;
  }
  CHECK(std::fabs(mean - 0.5) < 0.005);
}

void drawsFollowTheDistribution() {
  current = "draws follow the distribution at their temperature";
  const std::vector<float> logits = {0.0f, 1.0f, -0.5f, 2.0f, 0.7f};
  Sampler sampler;
  Sampling sampling;
  sampling.temperature = 0.8f;
  sampling.seed = 11;
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / 0.8);
  std::map<int, int> count;
  constexpr int n = 50000;
  for (int i = 0; i < n; ++i) {
    const Draw draw = sampler.draw(isa, logits.data(), 5, sampling, static_cast<uint32_t>(i));
    ++count[draw.id];
    CHECK(std::fabs(draw.logprob - (logits[draw.id] / 0.8 - std::log(total))) < 1e-5);
  }
  for (int id = 0; id < 5; ++id)
    CHECK(std::fabs(static_cast<double>(count[id]) / n - std::exp(logits[id] / 0.8) / total) < 0.01);
}

void temperatureDividesLogits() {
  current = "TOK-01: the temperature divides logits, not log-probabilities";
  const std::vector<float> logits = {2, 1, 0};
  Sampler sampler;
  Sampling sampling;
  sampling.temperature = 0.5f;
  for (uint32_t i = 0; i < 100; ++i) {
    const Draw draw = sampler.draw(isa, logits.data(), 3, sampling, i);
    if (draw.id == 0) CHECK(std::fabs(draw.logprob + 0.1429) < 1e-4);
  }
}

void filtersKeepTheMostProbable() {
  current = "top-k, top-p and min-p keep the most probable tokens";
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.05f), std::log(0.25f), std::log(0.2f)};
  Sampler sampler;
  const auto support = [&](const Sampling& sampling) {
    std::string ids;
    std::map<int, int> seen;
    for (uint32_t i = 0; i < 2000; ++i) {
      const Draw draw = sampler.draw(isa, logits.data(), 5, sampling, i);
      ++seen[draw.id];
      CHECK(std::fabs(draw.logprob - logits[draw.id]) < 1e-5);
    }
    for (const auto& entry : seen) ids += std::to_string(entry.first);
    return ids;
  };
  Sampling sampling;
  CHECK(support(sampling) == "01234");
  sampling.topK = 2;
  CHECK(support(sampling) == "13");
  sampling.topK = 1;
  CHECK(support(sampling) == "1");
  sampling.topK = 0;
  sampling.topP = 0.6f;
  CHECK(support(sampling) == "13");
  sampling.topP = 0;
  CHECK(support(sampling) == "1");
  sampling.topP = 1;
  sampling.minP = 0.45f;
  CHECK(support(sampling) == "134");
  sampling.temperature = 0;
  sampling.minP = 0;
  CHECK(support(sampling) == "1");
}

void largeNucleusIsFoundInPieces() {
  current = "a nucleus larger than one sorted piece";
  std::vector<float> logits(5000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(uniform(1, 2, i));
  Sampler sampler;
  Sampling narrow, wide;
  narrow.topP = 0.5f;
  narrow.topK = 4000;
  wide.topP = 0.999999f;
  for (uint32_t i = 0; i < 200; ++i) {
    CHECK(logits[sampler.draw(isa, logits.data(), 5000, narrow, i).id] > 0.55f);
    sampler.draw(isa, logits.data(), 5000, wide, i);
  }
}

void logitsThatAreNotNumbersAreAnError() {
  current = "logits that are not finite are an error";
  Sampler sampler;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (int at = 0; at < 3; ++at) {
      std::vector<float> logits = {0, 1, 2};
      logits[static_cast<size_t>(at)] = bad;
      std::string code;
      try {
        sampler.draw(isa, logits.data(), 3, Sampling{}, 0);
      } catch (const Error& error) {
        code = error.code;
      }
      CHECK(code == "ERR_NONFINITE");
    }
}

}  // namespace

int main() {
  randomNumbersAreTheSameOnEveryMachine();
  for (const Isa each : check::isas()) {
    isa = each;
    drawsFollowTheDistribution();
    temperatureDividesLogits();
    filtersKeepTheMostProbable();
    largeNucleusIsFoundInPieces();
    logitsThatAreNotNumbersAreAnError();
  }
  return check::close("sampler");
}
