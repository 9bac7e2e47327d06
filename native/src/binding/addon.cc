// Entry of the addon: see NativeAddon in src/Trainer/Native.ts.
#include <napi.h>

#include <thread>

#include "arguments.h"
#include "engine_object.h"
#include "environment.h"

namespace primerl {
namespace {

Napi::Value cpu(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("isa", isaName(detectIsa()));
  object.Set("amx", hasAmx());
  object.Set("cores", std::max(1u, std::thread::hardware_concurrency()));
  return object;
}

Napi::Value createEngine(const Napi::CallbackInfo& info) {
  return Environment::of(info.Env()).engineClass.New({info[0], info[1]});
}

Napi::Value packedLossOf(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const OwnedBatch batch = batchOf(info[1]);
  const size_t tokens = batch.tokenIds.size();
  const std::vector<float> trainer = floatsOf(info[0], "trainerLogprobs", tokens);
  const Counts counts = countsOf(info[2]);
  const LossSpec loss = lossOf(info[3]);
  if (batch.hasRefKl && !batch.hasReference)
    throwTypeError(env, "batch.refKlWeights needs batch.referenceLogprobs");
  Napi::Float32Array gradient = Napi::Float32Array::New(env, tokens);
  const LossSums sums = packedLoss(batch.view(), loss, counts, trainer.data(), gradient.Data());
  Napi::Object object = Napi::Object::New(env);
  object.Set("rl", sums.rl);
  object.Set("ce", sums.ce);
  object.Set("refKl", sums.refKl);
  object.Set("gradient", gradient);
  return object;
}

Napi::Object initialiseModule(Napi::Env env, Napi::Object exports) {
  auto* environment = new Environment(env);
  env.SetInstanceData<Environment>(environment);
  environment->engineClass = Napi::Persistent(EngineObject::define(env));
  environment->snapshotClass = Napi::Persistent(SnapshotObject::define(env));
  exports.Set("cpu", Napi::Function::New(env, cpu));
  exports.Set("createEngine", Napi::Function::New(env, createEngine));
  exports.Set("packedLoss", Napi::Function::New(env, packedLossOf));
  return exports;
}

NODE_API_MODULE(primerl, initialiseModule)

}  // namespace
}  // namespace primerl
