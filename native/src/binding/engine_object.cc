#include "engine_object.h"

#include <algorithm>
#include <limits>

#include "arguments.h"

namespace primerl {
namespace {

struct Nothing {};

Napi::Value undefined(Napi::Env env, Nothing&) { return env.Undefined(); }

Napi::Object scoresOf(Napi::Env env, const Scores& scores) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("logprobs", arrayOf(env, scores.logprobs));
  object.Set("entropy", arrayOf(env, scores.entropy));
  return object;
}

// The caller's array is written on the JavaScript thread, once the job is done and only if it still has room.
void fill(Napi::Env env, Napi::ObjectReference& target, const std::vector<float>& values) {
  Napi::Float32Array array = target.Value().As<Napi::Float32Array>();
  if (array.ElementLength() != values.size()) throwRangeError(env, "the target array was detached while the job ran");
  std::copy(values.begin(), values.end(), array.Data());
}

std::shared_ptr<Napi::ObjectReference> keep(const Napi::Value& value) {
  return std::make_shared<Napi::ObjectReference>(Napi::Persistent(value.As<Napi::Object>()));
}

}  // namespace

Napi::Float32Array arrayOf(Napi::Env env, const std::vector<float>& values) {
  Napi::Float32Array array = Napi::Float32Array::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

Napi::Function SnapshotObject::define(Napi::Env env) {
  return DefineClass(env, "WeightSnapshot", {InstanceAccessor<&SnapshotObject::bytes>("bytes")});
}

SnapshotObject::SnapshotObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<SnapshotObject>(info) {
  if (info.Length() != 1 || !info[0].IsExternal()) throwTypeError(info.Env(), "snapshots are made by an engine");
  snapshot_ = *info[0].As<Napi::External<Snapshot>>().Data();
  // The garbage collector must know what a snapshot weighs, or it lets old ones pile up.
  Napi::MemoryManagement::AdjustExternalMemory(info.Env(), size());
}

void SnapshotObject::Finalize(Napi::BasicEnv env) {
  if (snapshot_) Napi::MemoryManagement::AdjustExternalMemory(env, -size());
}

Napi::Object SnapshotObject::wrap(Napi::Env env, Snapshot snapshot) {
  return Environment::of(env).snapshotClass.New({Napi::External<Snapshot>::New(env, &snapshot)});
}

Snapshot SnapshotObject::unwrap(const Napi::Value& value) {
  const Napi::Env env = value.Env();
  if (!value.IsObject() || !value.As<Napi::Object>().InstanceOf(Environment::of(env).snapshotClass.Value()))
    throwTypeError(env, "snapshot must come from an engine's snapshot() in this thread");
  return Unwrap(value.As<Napi::Object>())->snapshot_;
}

Napi::Value SnapshotObject::bytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(size()));
}

Napi::Function EngineObject::define(Napi::Env env) {
  using E = EngineObject;
  return DefineClass(env, "NativeEngine",
                     {InstanceMethod<&E::tensors>("tensors"), InstanceMethod<&E::writeTensor>("writeTensor"),
                      InstanceMethod<&E::readTensor>("readTensor"), InstanceMethod<&E::readGradient>("readGradient"),
                      InstanceMethod<&E::readMoments>("readMoments"), InstanceMethod<&E::writeMoments>("writeMoments"),
                      InstanceMethod<&E::optimizerSteps>("optimizerSteps"),
                      InstanceMethod<&E::setOptimizerSteps>("setOptimizerSteps"),
                      InstanceMethod<&E::initialise>("initialise"), InstanceMethod<&E::snapshot>("snapshot"),
                      InstanceMethod<&E::adopt>("adopt"), InstanceMethod<&E::score>("score"),
                      InstanceMethod<&E::forwardBackward>("forwardBackward"), InstanceMethod<&E::forward>("forward"),
                      InstanceMethod<&E::backward>("backward"), InstanceMethod<&E::zeroGradients>("zeroGradients"),
                      InstanceMethod<&E::optimizerStep>("optimizerStep"), InstanceMethod<&E::generate>("generate"),
                      InstanceMethod<&E::generationStats>("generationStats"),
                      InstanceMethod<&E::takePhases>("takePhases"),
                      InstanceMethod<&E::createAdapter>("createAdapter"), InstanceMethod<&E::dispose>("dispose")});
}

EngineObject::EngineObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<EngineObject>(info) {
  const Napi::Env env = info.Env();
  if (info[0].IsExternal()) {
    const AdapterParts& parts = *info[0].As<Napi::External<AdapterParts>>().Data();
    engine_ = parts.engine;
    adapter_ = parts.adapter;
    return;
  }
  try {
    const ModelConfig config = modelConfigOf(info[0]);
    const Napi::Object from = objectOf(info[1], "options");
    Engine::Options options;
    options.threads = static_cast<int>(integerOf(from.Get("threads"), "options.threads", 1, 1024));
    options.trainable = booleanOf(from.Get("trainable"), "options.trainable");
    const Napi::Value isa = from.Get("isa");
    options.isa = isa.IsUndefined() ? detectIsa() : parseIsa(stringOf(isa, "options.isa").c_str());
    const Napi::Value dtype = from.Get("dtype"), headDtype = from.Get("headDtype");
    if (!dtype.IsUndefined()) options.precision = precisionOf(dtype, "options.dtype");
    options.headPrecision = headDtype.IsUndefined() ? options.precision : precisionOf(headDtype, "options.headDtype");
    const Napi::Value recompute = from.Get("activationCheckpointing"), limit = from.Get("memoryLimit");
    if (!recompute.IsUndefined()) options.recompute = booleanOf(recompute, "options.activationCheckpointing");
    if (!limit.IsUndefined()) options.memoryLimit = integerOf(limit, "options.memoryLimit", 1, int64_t{1} << 53);
    const Napi::Value kvBytes = from.Get("kvBytes");
    if (!kvBytes.IsUndefined()) options.kvLimitBytes = integerOf(kvBytes, "options.kvBytes", 1, int64_t{1} << 53);
    const Napi::Value device = from.Get("device");
    options.cuda = !device.IsUndefined() && isCuda(device, "options.device");
    engine_ = Environment::of(env).createEngine(config, options);
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw toJs(env, std::current_exception());
  }
}

EngineObject::~EngineObject() {
  if (engine_ && !adapter_) engine_->close();
}

Engine& EngineObject::engine(Napi::Env env) const {
  if (!engine_) throw toJs(env, std::make_exception_ptr(Error("ERR_DISPOSED", "The engine was disposed.")));
  return *engine_;
}

const TensorSpec& EngineObject::tensorOf(const Napi::Value& name) const {
  try {
    const Engine& native = engine(name.Env());
    const TensorTable& table = adapter_ ? adapter_->table() : native.layout();
    return table.at(stringOf(name, "name"));
  } catch (const Error&) {
    throw toJs(name.Env(), std::current_exception());
  }
}

Napi::Value EngineObject::jobObject(Napi::Env env, Napi::Promise promise, Engine::Ticket ticket) {
  const std::weak_ptr<Engine> engine = engine_;
  Napi::Object object = Napi::Object::New(env);
  object.Set("done", promise);
  object.Set("cancel", Napi::Function::New(env, [engine, ticket](const Napi::CallbackInfo&) {
               if (const auto alive = engine.lock()) alive->cancel(ticket);
             }));
  return object;
}

Napi::Value EngineObject::tensors(Info info) {
  const Napi::Env env = info.Env();
  const Engine& native = engine(env);
  const std::vector<TensorSpec>& specs = adapter_ ? adapter_->table().tensors() : native.layout().tensors();
  Napi::Array list = Napi::Array::New(env, specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    Napi::Array shape = Napi::Array::New(env, specs[i].shape.size());
    for (size_t d = 0; d < specs[i].shape.size(); ++d)
      shape.Set(static_cast<uint32_t>(d), Napi::Number::New(env, static_cast<double>(specs[i].shape[d])));
    Napi::Object tensor = Napi::Object::New(env);
    tensor.Set("name", specs[i].name);
    tensor.Set("shape", shape);
    list.Set(static_cast<uint32_t>(i), tensor);
  }
  return list;
}

Napi::Value EngineObject::writeTensor(Info info) {
  const TensorSpec& spec = tensorOf(info[0]);
  const DType dtype = dtypeOf(info[1], "dtype");
  auto bytes = std::make_shared<std::vector<uint8_t>>(bytesOf(info[2], "bytes"));
  if (static_cast<int64_t>(bytes->size()) != spec.count * sizeOf(dtype))
    throwRangeError(info.Env(), "bytes has " + std::to_string(bytes->size()) + " entries, tensor \"" + spec.name +
                                    "\" takes " + std::to_string(spec.count * sizeOf(dtype)));
  return job<Nothing>(
      info.Env(),
      [adapter = adapter_, name = spec.name, dtype, bytes](const Engine::Context& at, Nothing&) {
        parametersOf(at, adapter).writeTensor(name, dtype, *bytes);
      },
      undefined);
}

Napi::Value EngineObject::readInto(Info info, Reader reader) {
  const TensorSpec& spec = tensorOf(info[0]);
  const auto target = keep(float32Of(info[1], "into", static_cast<size_t>(spec.count)));
  return job<std::vector<float>>(
      info.Env(),
      [adapter = adapter_, name = spec.name, count = spec.count, reader](const Engine::Context& at,
                                                                         std::vector<float>& values) {
        values.resize(count);
        (parametersOf(at, adapter).*reader)(name, values.data());
      },
      [target](Napi::Env env, std::vector<float>& values) -> Napi::Value {
        fill(env, *target, values);
        return env.Undefined();
      });
}

Napi::Value EngineObject::readTensor(Info info) { return readInto(info, &Parameters::readTensor); }

Napi::Value EngineObject::readGradient(Info info) { return readInto(info, &Parameters::readGradient); }

Napi::Value EngineObject::readMoments(Info info) {
  const TensorSpec& spec = tensorOf(info[0]);
  const auto first = keep(float32Of(info[1], "first", static_cast<size_t>(spec.count)));
  const auto second = keep(float32Of(info[2], "second", static_cast<size_t>(spec.count)));
  using Moments = std::pair<std::vector<float>, std::vector<float>>;
  return job<Moments>(
      info.Env(),
      [adapter = adapter_, name = spec.name, count = spec.count](const Engine::Context& at, Moments& moments) {
        moments.first.resize(count);
        moments.second.resize(count);
        parametersOf(at, adapter).readMoments(name, moments.first.data(), moments.second.data());
      },
      [first, second](Napi::Env env, Moments& moments) -> Napi::Value {
        fill(env, *first, moments.first);
        fill(env, *second, moments.second);
        return env.Undefined();
      });
}

Napi::Value EngineObject::writeMoments(Info info) {
  const TensorSpec& spec = tensorOf(info[0]);
  auto first = std::make_shared<std::vector<float>>(floatsOf(info[1], "first", static_cast<size_t>(spec.count)));
  auto second = std::make_shared<std::vector<float>>(floatsOf(info[2], "second", static_cast<size_t>(spec.count)));
  return job<Nothing>(
      info.Env(),
      [adapter = adapter_, name = spec.name, first, second](const Engine::Context& at, Nothing&) {
        parametersOf(at, adapter).writeMoments(name, first->data(), second->data());
      },
      undefined);
}

Napi::Value EngineObject::optimizerSteps(Info info) {
  const Engine& native = engine(info.Env());
  const int64_t steps = adapter_ ? adapter_->optimizerSteps() : native.optimizerSteps();
  return Napi::Number::New(info.Env(), static_cast<double>(steps));
}

Napi::Value EngineObject::setOptimizerSteps(Info info) {
  Engine& native = engine(info.Env());
  const int64_t steps = integerOf(info[0], "steps", 0, int64_t{1} << 53);
  if (adapter_) adapter_->setOptimizerSteps(steps);
  else native.setOptimizerSteps(steps);
  return info.Env().Undefined();
}

Napi::Value EngineObject::initialise(Info info) {
  requireModel(info.Env(), "initialise");
  const int64_t seed = integerOf(info[0], "seed", 0, std::numeric_limits<uint32_t>::max());
  const double std = finiteOf(info[1], "std");
  return job<Nothing>(
      info.Env(),
      [seed, std](const Engine::Context& at, Nothing&) {
        at.network.initialise(at.compute, static_cast<uint64_t>(seed), std);
      },
      undefined);
}

Napi::Value EngineObject::snapshot(Info info) {
  return job<Snapshot>(
      info.Env(), [adapter = adapter_](const Engine::Context& at, Snapshot& snapshot) {
        snapshot = parametersOf(at, adapter).snapshot();
      },
      [](Napi::Env env, Snapshot& snapshot) -> Napi::Value { return SnapshotObject::wrap(env, snapshot); });
}

Napi::Value EngineObject::adopt(Info info) {
  const Snapshot snapshot = SnapshotObject::unwrap(info[0]);
  const std::string running = info[1].IsUndefined() ? "finish" : stringOf(info[1], "running");
  if (running != "finish" && running != "swap")
    throwRangeError(info.Env(), "running \"" + running + "\" is unknown; there are finish and swap");
  return job<uint64_t>(
      info.Env(),
      [adapter = adapter_, snapshot, running](const Engine::Context& at, uint64_t& version) {
        parametersOf(at, adapter).adopt(snapshot);
        version = at.network.versionWith(adapter.get());
        if (running == "swap") at.moveGenerations(adapter.get());
      },
      [](Napi::Env env, uint64_t& version) -> Napi::Value {
        return Napi::Number::New(env, static_cast<double>(version));
      });
}

Napi::Value EngineObject::score(Info info) {
  auto tokens = std::make_shared<OwnedTokens>(tokensOf(info[0], info[1], info[2]));
  return job<Scores>(
      info.Env(),
      [adapter = adapter_, tokens](const Engine::Context& at, Scores& scores) {
        scores = at.network.score(at.compute, tokens->view(), adapter.get());
      },
      [](Napi::Env env, Scores& scores) -> Napi::Value { return scoresOf(env, scores); });
}

Napi::Value EngineObject::forwardBackward(Info info) {
  auto batch = std::make_shared<OwnedBatch>(batchOf(info[0]));
  const Counts counts = countsOf(info[1]);
  const LossSpec loss = lossOf(info[2]);
  return job<LossReport>(
      info.Env(),
      [adapter = adapter_, batch, counts, loss](const Engine::Context& at, LossReport& report) {
        report = at.network.forwardBackward(at.compute, batch->view(), counts, loss, adapter.get());
      },
      [](Napi::Env env, LossReport& report) -> Napi::Value {
        Napi::Object object = scoresOf(env, report);
        object.Set("rl", report.sums.rl);
        object.Set("ce", report.sums.ce);
        object.Set("refKl", report.sums.refKl);
        return object;
      });
}

Napi::Value EngineObject::forward(Info info) {
  auto batch = std::make_shared<OwnedBatch>(batchOf(info[0]));
  return job<Scores>(
      info.Env(),
      [adapter = adapter_, batch](const Engine::Context& at, Scores& scores) {
        scores = at.network.forward(at.compute, batch->view(), adapter.get());
      },
      [](Napi::Env env, Scores& scores) -> Napi::Value { return scoresOf(env, scores); });
}

Napi::Value EngineObject::backward(Info info) {
  if (!info[0].IsTypedArray()) throwTypeError(info.Env(), "gradient must be a Float32Array");
  auto gradient = std::make_shared<std::vector<float>>(
      floatsOf(info[0], "gradient", info[0].As<Napi::TypedArray>().ElementLength()));
  return job<Nothing>(
      info.Env(),
      [adapter = adapter_, gradient](const Engine::Context& at, Nothing&) {
        at.network.backward(at.compute, *gradient, adapter.get());
      },
      undefined);
}

Napi::Value EngineObject::zeroGradients(Info info) {
  return job<Nothing>(
      info.Env(), [adapter = adapter_](const Engine::Context& at, Nothing&) { parametersOf(at, adapter).zeroGradients(); }, undefined);
}

Napi::Value EngineObject::optimizerStep(Info info) {
  const AdamW step = adamwOf(info[0]);
  return job<AdamWReport>(
      info.Env(),
      [adapter = adapter_, step](const Engine::Context& at, AdamWReport& report) {
        report = parametersOf(at, adapter).optimizerStep(at.compute, step);
      },
      [](Napi::Env env, AdamWReport& report) -> Napi::Value {
        Napi::Object object = Napi::Object::New(env);
        object.Set("gradNorm", report.gradNorm);
        object.Set("applied", report.applied);
        return object;
      });
}

Napi::Value EngineObject::takePhases(Info info) {
  return job<Phases>(
      info.Env(),
      [](const Engine::Context& at, Phases& phases) {
        phases = at.phases;
        at.phases = Phases();
      },
      [](Napi::Env env, Phases& phases) -> Napi::Value {
        const char* names[phaseCount] = {"projections", "attention", "feedForward", "head", "optimizer"};
        Napi::Object object = Napi::Object::New(env);
        for (size_t i = 0; i < phaseCount; ++i) {
          Napi::Object seconds = Napi::Object::New(env);
          seconds.Set("forward", phases.forward[i]);
          seconds.Set("backward", phases.backward[i]);
          object.Set(names[i], seconds);
        }
        return object;
      });
}

Napi::Value EngineObject::dispose(Info info) {
  if (adapter_)
    disposeAdapter();
  else if (engine_)
    engine_->close();
  engine_ = nullptr;
  adapter_ = nullptr;
  return info.Env().Undefined();
}

}  // namespace primerl
