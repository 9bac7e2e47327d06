// The JavaScript face of an engine and of its snapshots: see NativeEngine in src/Trainer/Native.ts.
#pragma once

#include <napi.h>

#include <memory>

#include "environment.h"

namespace primerl {

Napi::Float32Array arrayOf(Napi::Env env, const std::vector<float>& values);

class SnapshotObject : public Napi::ObjectWrap<SnapshotObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit SnapshotObject(const Napi::CallbackInfo& info);
  void Finalize(Napi::BasicEnv env) override;

  static Napi::Object wrap(Napi::Env env, Snapshot snapshot);
  static Snapshot unwrap(const Napi::Value& value);

 private:
  Napi::Value bytes(const Napi::CallbackInfo& info);
  int64_t size() const { return static_cast<int64_t>(snapshot_->size() * sizeof(float)); }
  Snapshot snapshot_;
};

class EngineObject : public Napi::ObjectWrap<EngineObject> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EngineObject(const Napi::CallbackInfo& info);
  ~EngineObject() override;

 private:
  using Info = const Napi::CallbackInfo&;
  Napi::Value tensors(Info info);
  Napi::Value writeTensor(Info info);
  Napi::Value readTensor(Info info);
  Napi::Value readGradient(Info info);
  Napi::Value readMoments(Info info);
  Napi::Value writeMoments(Info info);
  Napi::Value optimizerSteps(Info info);
  Napi::Value setOptimizerSteps(Info info);
  Napi::Value initialise(Info info);
  Napi::Value snapshot(Info info);
  Napi::Value adopt(Info info);
  Napi::Value score(Info info);
  Napi::Value forwardBackward(Info info);
  Napi::Value forward(Info info);
  Napi::Value backward(Info info);
  Napi::Value zeroGradients(Info info);
  Napi::Value optimizerStep(Info info);
  Napi::Value generate(Info info);
  Napi::Value takePhases(Info info);
  Napi::Value generationStats(Info info);
  Napi::Value createAdapter(Info info);
  Napi::Value dispose(Info info);

  /** What an adapter on an engine is made of; it has the methods of the engine for parameters of its own. */
  struct AdapterParts {
    std::shared_ptr<Engine> engine;
    std::shared_ptr<Adapter> adapter;
  };

  /** Whose values, gradients and moments these are. */
  static Parameters& parametersOf(const Engine::Context& at, const std::shared_ptr<Adapter>& adapter) {
    if (adapter) return *adapter;
    return at.network;
  }

  Engine& engine(Napi::Env env) const;
  /** Throws when this is an adapter. */
  void requireModel(Napi::Env env, const char* operation) const;
  void disposeAdapter();
  const TensorSpec& tensorOf(const Napi::Value& name) const;

  /** Queues the work and returns the job: `done` is kept with `value` of what the work made. */
  template <class Result>
  Napi::Value job(Napi::Env env, std::function<void(const Engine::Context&, Result&)> work,
                  std::function<Napi::Value(Napi::Env, Result&)> value);
  Napi::Value jobObject(Napi::Env env, Napi::Promise promise, Engine::Ticket ticket);
  using Reader = void (Parameters::*)(const std::string&, float*);
  Napi::Value readInto(Info info, Reader reader);

  std::shared_ptr<Engine> engine_;
  /** null: this is the model itself */
  std::shared_ptr<Adapter> adapter_;
};

template <class Result>
Napi::Value EngineObject::job(Napi::Env env, std::function<void(const Engine::Context&, Result&)> work,
                              std::function<Napi::Value(Napi::Env, Result&)> value) {
  Engine& native = engine(env);
  Environment& environment = Environment::of(env);
  auto result = std::make_shared<Result>();
  Napi::Promise promise;
  const uint64_t key = environment.open([result, value](Napi::Env to) { return value(to, *result); }, promise);
  const Engine::Ticket ticket =
      native.submit([result, work](const Engine::Context& context) { work(context, *result); },
                    [&environment, key](std::exception_ptr failure) { environment.settle(key, failure); });
  return jobObject(env, promise, ticket);
}

}  // namespace primerl
