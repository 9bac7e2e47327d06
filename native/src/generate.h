// Sequences that are generated together. Each goes on with the weights that it began with unless all are moved to new
// ones, and what it yields depends on its own request alone: not on its neighbours, nor on when it joined, nor on what is
// remembered of others.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "primerl/compute.h"
#include "primerl/decode.h"
#include "prefix_cache.h"
#include "sampler.h"

namespace primerl {

class Adapter;

/** What a sequence is computed with. */
struct GenerationWeights {
  std::shared_ptr<Decoder> decoder;
  /** null: the model alone */
  std::shared_ptr<const DecoderAdapter> adapter;
  WeightsKey key;
};

struct GenerateRequest {
  std::vector<int32_t> promptIds;
  Sampling sampling;
  /** null: the model alone */
  std::shared_ptr<Adapter> adapter;
  /** hears of each draw in order and before the end, on the thread that steps; empty when nobody listens */
  std::function<void(const Draw&)> onDraw;
};

/** From token `from` of what was drawn on, the weights had this version. */
struct WeightsRun {
  int64_t from;
  uint64_t version;
};

struct GenerateResult {
  std::vector<int32_t> tokenIds;
  std::vector<float> logprobs;
  /** a stop id was drawn; else the limit of tokens or of positions was reached */
  bool stopped = false;
  /** the weights that it was sampled with, in order; more than one only after `moveTo` */
  std::vector<WeightsRun> weights;
};

/** What generation does and holds at the moment, and has done so far. */
struct GenerationStats {
  int64_t running = 0;
  /** for a place, for memory, or for a beginning that another sequence reads */
  int64_t waiting = 0;
  /** of keys and values: those of running sequences, and those kept for later ones */
  int64_t kvBytes = 0;
  int64_t kvLimitBytes = 0;
  /** for each token, in whole blocks of 32 */
  int64_t kvBytesPerToken = 0;
  /** tokens that were computed, and tokens of prompts that were taken over instead */
  int64_t computedTokens = 0;
  int64_t sharedTokens = 0;
  /** sequences that gave their memory up to older ones, and computed it again */
  int64_t preemptions = 0;
};

class GenerationBatch {
 public:
  /** Called once; the exception is null when the result is whole. */
  using Done = std::function<void(std::exception_ptr, GenerateResult)>;

  /** Keys and values take at most `kvLimitBytes`; 0 stands for one gibibyte, or one sequence of all positions. */
  GenerationBatch(const ModelConfig& config, Isa isa, int64_t kvLimitBytes = 0);
  ~GenerationBatch();

  /** Throws ERR_BATCH, ERR_PROMPT_TOO_LONG or ERR_KV_LIMIT when the request cannot be. */
  void validate(const GenerateRequest& request) const;

  /** Joins at the next step that has room, in the order of asking. `cancel` ends this request alone, at a step. */
  void add(GenerateRequest request, GenerationWeights weights, std::shared_ptr<const Cancel> cancel, Done&& done);

  /** Sequences for which `next` has weights go on with those from their next token; keys and values that they have stay. */
  using Next = std::function<std::optional<GenerationWeights>(const GenerationWeights&)>;
  void move(const Next& next);

  /** An adapter that is gone: what is remembered of it is not needed again. */
  void forget(uint64_t adapter);

  bool empty() const { return waiting_.empty() && running_.empty(); }

  /** Reads prompts, or draws one token for every running sequence. When it throws, no sequence has changed. */
  void step(const Compute& compute);

  /** Ends all sequences with this error. */
  void fail(std::exception_ptr failure);

  GenerationStats stats() const;

 private:
  struct Sequence;
  using Sequences = std::list<std::unique_ptr<Sequence>>;

  void use(const WeightsKey& newest);
  void forgetUnused();
  void dropCancelled(Sequences& sequences);
  void admit();
  bool waitsForBeginning(const Sequence& sequence) const;
  bool admitted(Sequence& sequence);
  bool makeRoom(int64_t blocks);
  /** Room for all rows of a step; the youngest sequences give theirs up where it is too little. */
  void reserve();
  void remember(Sequence& sequence);
  void stepOn(const Compute& compute, const std::shared_ptr<Decoder>& decoder);
  bool isNewest(const WeightsKey& key) const;
  void endFinished();

  const ModelConfig config_;
  std::shared_ptr<KvMemory> memory_;
  PrefixCache prefixes_;
  /** newest version that each adapter, and the model alone, was asked with */
  std::map<uint64_t, uint64_t> newest_;
  /** oldest first */
  Sequences waiting_, running_;
  std::vector<float> logits_;
  GenerationStats done_;
};

}  // namespace primerl
