// An engine of a tiny model, and whoever asks it and waits.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "engine.h"
#include "expect.h"

namespace client {

using namespace primerl;

inline ModelConfig tinyConfig() {
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

inline std::string codeOf(std::exception_ptr failure) {
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
  explicit Client(bool trainable = false, int threads = 2, int64_t kvLimitBytes = 0) {
    Engine::Options options;
    options.kvLimitBytes = kvLimitBytes;
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

  GenerationStats stats() {
    GenerationStats found;
    CHECK(run([&](const Engine::Context& at) { found = at.generations.stats(); }) == "");
    return found;
  }

  GenerateResult generate(GenerateRequest request) {
    Started started = start(std::move(request));
    CHECK(started.wait() == "");
    return started.outcome->result;
  }

  std::unique_ptr<Engine> engine;
};

inline GenerateRequest requestOf(uint32_t seed, int prompt, int maxTokens, float temperature = 1) {
  GenerateRequest request;
  for (int i = 0; i < prompt; ++i) request.promptIds.push_back((i * 7 + 3) % 61);
  request.sampling.maxTokens = maxTokens;
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  return request;
}

inline bool same(const GenerateResult& a, const GenerateResult& b) {
  return a.tokenIds == b.tokenIds && a.logprobs == b.logprobs && a.stopped == b.stopped;
}

}  // namespace client
