// What a generation has drawn and its listener has not heard of yet: the engine's thread adds, the JavaScript thread takes
// all there is. A listener that is slower than the engine hears of several draws at once.
#pragma once

#include <napi.h>

#include <memory>
#include <mutex>
#include <vector>

#include "engine.h"

namespace primerl {

class Draws {
 public:
  explicit Draws(std::weak_ptr<Engine> engine) : engine_(std::move(engine)) {}

  /** Of the generation; only the JavaScript thread reads and writes it. */
  Engine::Ticket ticket;

  /** True when the listener has heard of all the draws before: it must be told. */
  bool add(const Draw& draw);

  /** On the JavaScript thread. A generation that was cancelled or disposed of is heard of no more; what the listener
   * throws is thrown again, and ends the generation. */
  void tell(Napi::Env env, const Napi::FunctionReference& listener);

 private:
  std::weak_ptr<Engine> engine_;
  std::mutex mutex_;
  std::vector<int32_t> ids_;
  std::vector<float> logprobs_;
};

}  // namespace primerl
