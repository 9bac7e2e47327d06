#include "environment.h"

#include "arguments.h"

namespace primerl {

Environment::Environment(Napi::Env env)
    : env_(env), channel_(Channel::New(env, "primerl", 0, 1, this)) {
  channel_.Unref(env);
  // Hooks run last to first: engines end before the channel, which registered its own hook above.
  env.AddCleanupHook([this] { shutDown(); });
}

std::shared_ptr<Engine> Environment::createEngine(const ModelConfig& config, Engine::Options options) {
  const uint64_t key = nextKey_++;
  options.closed = [this, key] {
    post([key](Environment& environment, Napi::Env) { environment.engines_.erase(key); });
  };
  auto engine = std::make_shared<Engine>(config, options);
  engines_.emplace(key, engine);
  return engine;
}

uint64_t Environment::open(Value value, Napi::Promise& promise, Napi::Function listener) {
  const uint64_t key = nextKey_++;
  auto deferred = Napi::Promise::Deferred::New(env_);
  promise = deferred.Promise();
  if (pending_.empty()) channel_.Ref(env_);
  pending_.emplace(key, Pending{deferred, std::move(value), {}, {}});
  if (!listener.IsEmpty()) pending_.at(key).listener = Napi::Persistent(listener);
  return key;
}

void Environment::settle(uint64_t key, std::exception_ptr failure) {
  post([key, failure](Environment& environment, Napi::Env env) {
    const auto at = environment.pending_.find(key);
    if (at == environment.pending_.end()) return;
    const Pending pending = std::move(at->second);
    environment.pending_.erase(at);
    if (environment.pending_.empty()) environment.channel_.Unref(env);
    if (pending.thrown) {
      pending.deferred.Reject(pending.thrown->Value());
      return;
    }
    if (failure) {
      pending.deferred.Reject(toJs(env, failure).Value());
      return;
    }
    try {
      pending.deferred.Resolve(pending.value(env));
    } catch (const Napi::Error& error) {
      pending.deferred.Reject(error.Value());
    } catch (...) {
      pending.deferred.Reject(toJs(env, std::current_exception()).Value());
    }
  });
}

void Environment::tell(uint64_t key, Say say) {
  post([key, say = std::move(say)](Environment& environment, Napi::Env env) {
    const auto at = environment.pending_.find(key);
    if (at == environment.pending_.end() || at->second.thrown) return;
    Pending& pending = at->second;  // stays where it is, whatever the listener starts
    try {
      say(env, pending.listener);
    } catch (const Napi::Error& error) {
      pending.thrown = error;
    }
  });
}

void Environment::post(Message message) {
  auto* heap = new Message(std::move(message));
  if (channel_.NonBlockingCall(heap) != napi_ok) delete heap;
}

void Environment::receive(Napi::Env env, Napi::Function, Environment* environment, Message* message) {
  const std::unique_ptr<Message> owned(message);
  if (static_cast<napi_env>(env) == nullptr) return;  // the environment is going away
  try {
    (*owned)(*environment, env);
  } catch (const Napi::Error&) {
    // A worker that is being terminated can neither settle a promise nor throw: nobody is left to hear of it.
  }
}

void Environment::shutDown() {
  // All are asked before any is waited for. JavaScript may still hold engines: their threads must end here all the same.
  for (auto& engine : engines_) engine.second->close();
  for (auto& engine : engines_) engine.second->stop();
  engines_.clear();
  pending_.clear();
  channel_.Release();
}

}  // namespace primerl
