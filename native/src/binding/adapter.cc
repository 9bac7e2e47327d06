// The part of an engine's JavaScript face that makes adapters.
#include "arguments.h"
#include "engine_object.h"

namespace primerl {

Napi::Value EngineObject::createAdapter(Info info) {
  const Napi::Env env = info.Env();
  requireModel(env, "createAdapter");
  const LoraOptions options = loraOptionsOf(info[0]);
  const bool trainable = booleanOf(objectOf(info[0], "options").Get("trainable"), "options.trainable");
  try {
    AdapterParts parts{engine_, engine(env).createAdapter(options, trainable)};
    return Environment::of(env).engineClass.New({Napi::External<AdapterParts>::New(env, &parts)});
  } catch (const Error&) {
    throw toJs(env, std::current_exception());
  }
}

void EngineObject::requireModel(Napi::Env env, const char* operation) const {
  engine(env);
  if (adapter_)
    throw toJs(env, std::make_exception_ptr(
                        Error("ERR_STATE", std::string(operation) + " is of a model, and this is an adapter on one")));
}

/** An adapter leaves its model as it is. Jobs that were asked for before hold it until they are done. */
void EngineObject::disposeAdapter() {
  if (engine_) engine_->submit([id = adapter_->id()](const Engine::Context& at) { at.generations.forget(id); },
                               [](std::exception_ptr) {});
}

}  // namespace primerl
