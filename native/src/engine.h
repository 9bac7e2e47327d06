// One thread per engine does all its work: jobs in the order in which they were asked for, and between two of them one
// token of every running generation. Everything asked for ends exactly once, with a result or with an error.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "generate.h"
#include "network.h"
#include "primerl/phases.h"

namespace primerl {

class Engine {
 public:
  struct Options {
    int threads = 1;
    bool trainable = false;
    Isa isa = Isa::scalar;
    Precision precision = Precision::float32;
    Precision headPrecision = Precision::float32;
    bool recompute = false;
    int64_t memoryLimit = 0;
    /** whether to measure where the time goes */
    bool phases = false;
    /** limit of keys and values; 0 stands for the default of `GenerationBatch` */
    int64_t kvLimitBytes = 0;
    /** passes and steps run on the first CUDA device; generations stay on the processor */
    bool cuda = false;
    /** called on the engine's thread as its last act after `close` */
    std::function<void()> closed = nullptr;
  };

  /** What a job may use; valid during its work only. */
  struct Context {
    Network& network;
    Phases& phases;
    const Compute& compute;
    /** Running and waiting generations of the adapter (null: all) go on with the values as they are now. */
    std::function<void(Adapter*)> moveGenerations;
    GenerationBatch& generations;
  };
  using Work = std::function<void(const Context&)>;
  /** Called once, from any thread: null when the work came to its end. Must not call back into the engine. */
  using Done = std::function<void(std::exception_ptr)>;
  using Ticket = std::shared_ptr<Cancel>;

  Engine(const ModelConfig& config, const Options& options);
  ~Engine() { stop(); }

  const ModelConfig& config() const { return network_.config(); }
  const Layout& layout() const { return network_.layout(); }
  int64_t optimizerSteps() const { return network_.optimizerSteps(); }
  void setOptimizerSteps(int64_t steps) { network_.setOptimizerSteps(steps); }
  std::shared_ptr<Adapter> createAdapter(const LoraOptions& options, bool trainable) const {
    return network_.createAdapter(options, trainable);
  }

  Ticket submit(Work work, Done done);
  Ticket generate(GenerateRequest request, GenerationBatch::Done done);

  /** Ends a waiting job at once, a running one at its next check. */
  void cancel(const Ticket& ticket);

  /** Ends everything with ERR_DISPOSED, without waiting; later jobs end so too. */
  void close();

  bool closing();

  /** Closes and waits for the thread; one thread at a time may call it. */
  void stop();

 private:
  struct Job {
    Ticket ticket;
    Work work;
    Done done;
    // A generation has a request in the place of work.
    std::unique_ptr<GenerateRequest> request;
    GenerationBatch::Done generated;
    void end(std::exception_ptr failure);
  };

  Ticket enqueue(Job job);
  /** Of the exception being handled; after `close`, whatever it was, that the engine was disposed. */
  std::exception_ptr failure();
  Compute compute(const Cancel* cancel) { return {pool_, isa_, cancel, precision_, headPrecision_, &phases_}; }
  void loop();
  void runJob(Job& job);
  void startGeneration(Job& job);
  /** Of the network's weights as they are now. Running generations hold the one that they go on with. */
  const std::shared_ptr<Decoder>& currentDecoder();
  /** Of the network with an adapter, or without, as they are now. */
  GenerationWeights currentWeights(Adapter* adapter);
  void moveGenerations(Adapter* adapter);

  Network network_;
  Phases phases_;
  Pool pool_;
  const Isa isa_;
  const Precision precision_, headPrecision_;
  GenerationBatch batch_;
  std::shared_ptr<Decoder> decoder_;
  uint64_t decoderVersion_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;
  Ticket running_;
  Cancel stop_;
  bool closing_ = false;
  std::function<void()> closed_;
  std::thread thread_;
};

}  // namespace primerl
