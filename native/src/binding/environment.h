// What the addon keeps for one JavaScript environment (the main thread or a worker). Native threads hand over numbers
// only; everything that belongs to JavaScript stays in `pending` on its own thread.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "engine.h"

namespace primerl {

class Environment {
 public:
  explicit Environment(Napi::Env env);
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  Napi::FunctionReference engineClass;
  Napi::FunctionReference snapshotClass;

  std::shared_ptr<Engine> createEngine(const ModelConfig& config, Engine::Options options);

  /** What a promise is kept with, made on the JavaScript thread once the work is done. */
  using Value = std::function<Napi::Value(Napi::Env)>;

  /**
   * Opens a promise; it is settled after `settle` was called with its key. The event loop stays alive until then.
   * `listener`, when there is one, hears of the work while it runs, through `tell`.
   */
  uint64_t open(Value value, Napi::Promise& promise, Napi::Function listener = {});

  /** From any thread. */
  void settle(uint64_t key, std::exception_ptr failure);

  /** Calls a promise's listener, on the JavaScript thread. */
  using Say = std::function<void(Napi::Env, const Napi::FunctionReference&)>;

  /** From any thread, before `settle`. Once the listener has thrown, it is not called again, and what it threw rejects
   * the promise. */
  void tell(uint64_t key, Say say);

 private:
  struct Pending {
    Napi::Promise::Deferred deferred;
    Value value;
    Napi::FunctionReference listener;
    std::optional<Napi::Error> thrown;
  };
  using Message = std::function<void(Environment&, Napi::Env)>;

  static void receive(Napi::Env env, Napi::Function, Environment* environment, Message* message);
  using Channel = Napi::TypedThreadSafeFunction<Environment, Message, receive>;

  void post(Message message);
  void shutDown();

  Napi::Env env_;
  Channel channel_;
  uint64_t nextKey_ = 1;
  std::unordered_map<uint64_t, Pending> pending_;
  // An engine stays here until its thread has ended, so that no thread outlives the environment.
  std::unordered_map<uint64_t, std::shared_ptr<Engine>> engines_;
};

}  // namespace primerl
