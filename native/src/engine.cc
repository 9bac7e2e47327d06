#include "engine.h"

#include <algorithm>
#include <utility>

#include "cuda_library.h"

namespace primerl {
namespace {

std::exception_ptr cancelled() {
  return std::make_exception_ptr(Error("ERR_CANCELLED", "The job was cancelled."));
}

std::exception_ptr disposed() {
  return std::make_exception_ptr(Error("ERR_DISPOSED", "The engine was disposed."));
}

std::unique_ptr<DeviceModel> deviceModel(const ModelConfig& config, const Engine::Options& options) {
  if (!options.cuda) return nullptr;
  if (options.precision == Precision::bfloat16x3 || options.headPrecision != options.precision) {
    throw Error("ERR_CONFIG",
                "On CUDA, products are of float32 or of bfloat16, in the head as elsewhere. Leave headDtype out.");
  }
  if (options.memoryLimit != 0)
    throw Error("ERR_CONFIG", "A limit of memory counts what the processor's passes take. Leave it out on CUDA.");
  return openCudaModel(config, {options.precision == Precision::bfloat16, options.trainable, options.recompute});
}

}  // namespace

void Engine::Job::end(std::exception_ptr failure) {
  if (generated)
    generated(failure, {});
  else
    done(failure);
}

Engine::Engine(const ModelConfig& config, const Options& options)
    : network_(config, {options.trainable, options.recompute, options.memoryLimit}, deviceModel(config, options)),
      pool_(options.threads),
      isa_(options.isa),
      precision_(options.precision),
      headPrecision_(options.headPrecision),
      batch_(config, options.isa, options.kvLimitBytes),
      closed_(options.closed),
      thread_([this] { loop(); }) {}

Engine::Ticket Engine::enqueue(Job job) {
  Ticket ticket = job.ticket;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!closing_) {
      queue_.push_back(std::move(job));
      wake_.notify_one();
      return ticket;
    }
  }
  job.end(disposed());
  return ticket;
}

Engine::Ticket Engine::submit(Work work, Done done) {
  return enqueue({std::make_shared<Cancel>(), std::move(work), std::move(done), nullptr, nullptr});
}

Engine::Ticket Engine::generate(GenerateRequest request, GenerationBatch::Done done) {
  return enqueue({std::make_shared<Cancel>(), nullptr, nullptr,
                  std::make_unique<GenerateRequest>(std::move(request)), std::move(done)});
}

void Engine::cancel(const Ticket& ticket) {
  ticket->cancel();
  std::unique_lock<std::mutex> lock(mutex_);
  const auto at = std::find_if(queue_.begin(), queue_.end(), [&](const Job& job) { return job.ticket == ticket; });
  if (at == queue_.end()) return;
  Job job = std::move(*at);
  queue_.erase(at);
  lock.unlock();
  job.end(cancelled());
}

void Engine::close() {
  std::deque<Job> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    waiting.swap(queue_);
    if (running_) running_->cancel();
    stop_.cancel();
    wake_.notify_one();
  }
  for (Job& job : waiting) job.end(disposed());
}

bool Engine::closing() {
  std::lock_guard<std::mutex> lock(mutex_);
  return closing_;
}

void Engine::stop() {
  close();
  if (thread_.joinable()) thread_.join();
}

std::exception_ptr Engine::failure() { return closing() ? disposed() : std::current_exception(); }

void Engine::runJob(Job& job) {
  std::exception_ptr failed;
  try {
    const Compute compute = this->compute(job.ticket.get());
    compute.check();
    job.work({network_, phases_, compute, [this](Adapter* adapter) { moveGenerations(adapter); }, batch_});
  } catch (...) {
    failed = failure();
  }
  job.end(failed);
}

const std::shared_ptr<Decoder>& Engine::currentDecoder() {
  if (decoderVersion_ != network_.version()) {
    decoder_ = std::make_shared<Decoder>(config(), isa_);
    decoder_->load(compute(&stop_), network_.weights());
    decoderVersion_ = network_.version();
  }
  return decoder_;
}

GenerationWeights Engine::currentWeights(Adapter* adapter) {
  GenerationWeights weights;
  weights.decoder = currentDecoder();
  weights.key.version = network_.versionWith(adapter);
  if (adapter == nullptr) return weights;
  weights.adapter = adapter->decoder(compute(&stop_));
  weights.key.adapter = adapter->id();
  return weights;
}

void Engine::moveGenerations(Adapter* adapter) {
  // Without a generation the next one finds out by itself.
  if (batch_.empty()) return;
  const GenerationWeights now = currentWeights(adapter);
  batch_.move([&](const GenerationWeights& old) -> std::optional<GenerationWeights> {
    if (adapter != nullptr) return old.key.adapter == adapter->id() ? std::optional(now) : std::nullopt;
    // The model's own change is the newest of all, for every adapter on it.
    GenerationWeights next = old;
    next.decoder = now.decoder;
    next.key.version = now.key.version;
    return next;
  });
}

void Engine::startGeneration(Job& job) {
  try {
    if (job.ticket->cancelled()) throw Error("ERR_CANCELLED", "The generation was cancelled.");
    batch_.validate(*job.request);
    GenerationWeights weights = currentWeights(job.request->adapter.get());
    batch_.add(std::move(*job.request), std::move(weights), job.ticket, std::move(job.generated));
  } catch (...) {
    job.end(failure());
  }
}

void Engine::loop() {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (batch_.empty()) wake_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (closing_) break;
    // All generations at the head of the queue join together, then at most one other job runs before the next token.
    std::deque<Job> starting;
    while (!queue_.empty() && queue_.front().request) {
      starting.push_back(std::move(queue_.front()));
      queue_.pop_front();
    }
    Job job;
    if (starting.empty() && !queue_.empty()) {
      job = std::move(queue_.front());
      queue_.pop_front();
      running_ = job.ticket;
    }
    lock.unlock();
    for (Job& generation : starting) startGeneration(generation);
    if (job.ticket) {
      runJob(job);
      job = Job{};
      lock.lock();
      running_ = nullptr;
      lock.unlock();
    }
    if (batch_.empty()) continue;
    try {
      batch_.step(compute(&stop_));
    } catch (...) {
      batch_.fail(failure());
    }
  }
  batch_.fail(disposed());
  decoder_ = nullptr;
  if (closed_) closed_();
}

}  // namespace primerl
