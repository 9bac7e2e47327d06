// Entry of the addon: see NativeAddon in src/Trainer/Native.ts.
#include <napi.h>

#include <limits>
#include <thread>
#include <utility>

#include "arguments.h"
#include "cuda_library.h"
#include "engine_object.h"
#include "environment.h"
#include "primerl/plan.h"

namespace primerl {
namespace {

Napi::Value cpu(const Napi::CallbackInfo& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("isa", isaName(detectIsa()));
  object.Set("amx", hasAmx());
  object.Set("cores", std::max(1u, std::thread::hardware_concurrency()));
  return object;
}

Napi::Value memoryPlanOf(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  try {
    const ModelConfig config = modelConfigOf(info[0]);
    const Napi::Object from = objectOf(info[1], "options");
    PlanOptions options;
    options.isa = detectIsa();
    options.trainable = booleanOf(from.Get("trainable"), "options.trainable");
    options.recompute = booleanOf(from.Get("activationCheckpointing"), "options.activationCheckpointing");
    options.precision = precisionOf(from.Get("dtype"), "options.dtype");
    options.headPrecision = precisionOf(from.Get("headDtype"), "options.headDtype");
    options.threads = static_cast<int>(integerOf(from.Get("threads"), "options.threads", 1, 1024));
    options.tokens = integerOf(from.Get("tokens"), "options.tokens", 0, std::numeric_limits<int32_t>::max());
    const Napi::Value lora = from.Get("lora");
    if (!lora.IsUndefined()) {
      const LoraOptions adapter = loraOptionsOf(lora);
      options.adapterBytes = Adapter::bytesOf(LoraLayout(config, adapter), true);
      options.adapterTrains = true;
      options.rank = adapter.rank;
      options.drops = adapter.dropout > 0;
    }
    const MemoryPlan plan = memoryPlan(config, options);
    Napi::Object object = Napi::Object::New(env);
    for (const auto& [name, bytes] :
         {std::pair{"weights", plan.weights}, {"gradients", plan.gradients}, {"optimizer", plan.optimizer},
          {"adapters", plan.adapters},
          {"activations", plan.activations}, {"workspace", plan.workspace}, {"total", plan.total()},
          {"decoder", plan.decoder}, {"cachePerToken", plan.cachePerToken}})
      object.Set(name, static_cast<double>(bytes));
    return object;
  } catch (const Error&) {
    throw toJs(env, std::current_exception());
  }
}

Napi::Value cuda(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const CudaReport report = cudaReport();
  Napi::Object object = Napi::Object::New(env);
  object.Set("reason", report.reason.empty() ? env.Undefined() : Napi::String::New(env, report.reason));
  object.Set("library", report.path);
  object.Set("built", report.built);
  object.Set("driver", report.driver);
  Napi::Array devices = Napi::Array::New(env);
  for (size_t i = 0; i < report.devices.size(); i++) {
    const CudaReport::Device& device = report.devices[i];
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("name", device.name);
    entry.Set("capability", device.capability);
    entry.Set("bytes", static_cast<double>(device.bytes));
    devices.Set(static_cast<uint32_t>(i), entry);
  }
  object.Set("devices", devices);
  object.Set("cublas", report.cublas);
  object.Set("cublasVersion", report.cublasVersion);
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
  exports.Set("cuda", Napi::Function::New(env, cuda));
  exports.Set("createEngine", Napi::Function::New(env, createEngine));
  exports.Set("memoryPlan", Napi::Function::New(env, memoryPlanOf));
  exports.Set("packedLoss", Napi::Function::New(env, packedLossOf));
  return exports;
}

NODE_API_MODULE(primerl, initialiseModule)

}  // namespace
}  // namespace primerl
