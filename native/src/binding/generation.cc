// The part of an engine's JavaScript face that generates.
#include <algorithm>

#include "arguments.h"
#include "draws.h"
#include "engine_object.h"

namespace primerl {
namespace {

// Where other weights took over, after those of the first token.
Napi::Array swapsOf(Napi::Env env, const std::vector<WeightsRun>& weights) {
  Napi::Array swaps = Napi::Array::New(env, weights.size() - 1);
  for (size_t i = 1; i < weights.size(); ++i) {
    Napi::Object swap = Napi::Object::New(env);
    swap.Set("from", static_cast<double>(weights[i].from));
    swap.Set("weightsVersion", static_cast<double>(weights[i].version));
    swaps.Set(static_cast<uint32_t>(i - 1), swap);
  }
  return swaps;
}

}  // namespace

Napi::Value EngineObject::generate(Info info) {
  const Napi::Env env = info.Env();
  GenerateRequest request = requestOf(info[0]);
  Engine& native = engine(env);
  request.adapter = adapter_;
  Environment& environment = Environment::of(env);
  auto result = std::make_shared<GenerateResult>();
  Napi::Promise promise;
  const Napi::Function listener = optionalFunctionOf(info[1], "onTokens");
  const uint64_t key = environment.open(
      [result](Napi::Env to) -> Napi::Value {
        Napi::Int32Array ids = Napi::Int32Array::New(to, result->tokenIds.size());
        std::copy(result->tokenIds.begin(), result->tokenIds.end(), ids.Data());
        Napi::Object object = Napi::Object::New(to);
        object.Set("tokenIds", ids);
        object.Set("logprobs", arrayOf(to, result->logprobs));
        object.Set("finishReason", result->stopped ? "stop" : "length");
        object.Set("weightsVersion", static_cast<double>(result->weights.front().version));
        object.Set("swaps", swapsOf(to, result->weights));
        return object;
      },
      promise, listener);
  const auto draws = std::make_shared<Draws>(engine_);
  if (!listener.IsEmpty())
    request.onDraw = [&environment, key, draws](const Draw& draw) {
      if (!draws->add(draw)) return;
      environment.tell(key, [draws](Napi::Env to, const Napi::FunctionReference& heard) { draws->tell(to, heard); });
    };
  draws->ticket = native.generate(
      std::move(request), [&environment, key, result](std::exception_ptr failure, GenerateResult generated) {
        *result = std::move(generated);
        environment.settle(key, failure);
      });
  return jobObject(env, promise, draws->ticket);
}

Napi::Value EngineObject::generationStats(Info info) {
  return job<GenerationStats>(
      info.Env(), [](const Engine::Context& at, GenerationStats& stats) { stats = at.generations.stats(); },
      [](Napi::Env env, GenerationStats& stats) -> Napi::Value {
        Napi::Object object = Napi::Object::New(env);
        const auto set = [&](const char* name, int64_t value) { object.Set(name, static_cast<double>(value)); };
        set("running", stats.running);
        set("waiting", stats.waiting);
        set("kvBytes", stats.kvBytes);
        set("kvLimitBytes", stats.kvLimitBytes);
        set("kvBytesPerToken", stats.kvBytesPerToken);
        set("computedTokens", stats.computedTokens);
        set("sharedTokens", stats.sharedTokens);
        set("preemptions", stats.preemptions);
        return object;
      });
}

}  // namespace primerl
