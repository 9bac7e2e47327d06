#include "draws.h"

#include <algorithm>

namespace primerl {

bool Draws::add(const Draw& draw) {
  std::lock_guard<std::mutex> lock(mutex_);
  ids_.push_back(draw.id);
  logprobs_.push_back(draw.logprob);
  return ids_.size() == 1;
}

void Draws::tell(Napi::Env env, const Napi::FunctionReference& listener) {
  const std::shared_ptr<Engine> engine = engine_.lock();
  if (!engine || engine->closing() || ticket->cancelled()) return;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ids.swap(ids_);
    logprobs.swap(logprobs_);
  }
  Napi::Int32Array tokenIds = Napi::Int32Array::New(env, ids.size());
  std::copy(ids.begin(), ids.end(), tokenIds.Data());
  Napi::Float32Array values = Napi::Float32Array::New(env, logprobs.size());
  std::copy(logprobs.begin(), logprobs.end(), values.Data());
  try {
    listener.Call({tokenIds, values});
  } catch (const Napi::Error&) {
    engine->cancel(ticket);
    throw;
  }
}

}  // namespace primerl
