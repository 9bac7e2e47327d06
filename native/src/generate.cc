#include "generate.h"

#include <algorithm>
#include <string>

namespace primerl {
namespace {

// Prompt tokens read per step: enough to use the machine well, little enough not to hold up the others for long.
constexpr int64_t promptTokens = 512;
// Sequences that run together.
constexpr size_t mostRunning = 256;
// For a common beginning shorter than this nobody waits.
constexpr int64_t leastShared = 16;

constexpr int64_t defaultLimitBytes = int64_t{1} << 30;

int64_t commonLength(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int64_t most) {
  const int64_t limit = std::min<int64_t>({most, static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size())});
  return std::mismatch(a.begin(), a.begin() + limit, b.begin()).first - a.begin();
}

int64_t limitBlocks(const ModelConfig& config, Isa isa, int64_t bytes) {
  const int64_t block = KvShape(config, isa).bytes();
  if (bytes > 0) return bytes / block;
  return std::max(defaultLimitBytes / block, blocksFor(config.maxPositionEmbeddings));
}

}  // namespace

struct GenerationBatch::Sequence {
  GenerateRequest request;
  GenerationWeights weights;
  std::shared_ptr<const Cancel> cancel;
  Done done;
  KvCache cache;
  std::vector<int32_t> tokens;  // prompt, then what was drawn
  GenerateResult result = {};
  std::exception_ptr failure = nullptr;
  bool finished = false;
  bool mixed = false;          // its keys and values are of several versions
  int64_t remembered = 0;      // of its tokens that later sequences can find
  int64_t next = 0;            // tokens of the step that is being made
  size_t told = 0;             // draws that `onDraw` has heard of

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  /** Its next token can be drawn only when all before it are read. */
  bool reading() const { return length() - cache.length() > 1 || result.tokenIds.empty(); }
  /** Tokens that may be taken over: the last one is computed anew, for its logits. */
  int64_t shareable() const { return length() - 1; }

  void take(const Draw& draw, int64_t maxPositions) {
    if (result.weights.empty() || result.weights.back().version != weights.key.version)
      result.weights.push_back({static_cast<int64_t>(result.tokenIds.size()), weights.key.version});
    tokens.push_back(draw.id);
    result.tokenIds.push_back(draw.id);
    result.logprobs.push_back(draw.logprob);
    const std::vector<int32_t>& stops = request.sampling.stopIds;
    result.stopped = std::find(stops.begin(), stops.end(), draw.id) != stops.end();
    finished = result.stopped || static_cast<int64_t>(result.tokenIds.size()) >= request.sampling.maxTokens ||
               length() >= maxPositions;
  }

  void tell() {
    if (!request.onDraw) return;
    for (; told < result.tokenIds.size(); ++told) request.onDraw({result.tokenIds[told], result.logprobs[told]});
  }

  void release() {
    cache.clear();
    remembered = 0;
    mixed = false;
  }
};

GenerationBatch::GenerationBatch(const ModelConfig& config, Isa isa, int64_t kvLimitBytes)
    : config_(config), memory_(std::make_shared<KvMemory>(config, isa, limitBlocks(config, isa, kvLimitBytes))) {}
GenerationBatch::~GenerationBatch() = default;

void GenerationBatch::validate(const GenerateRequest& request) const {
  const int64_t length = static_cast<int64_t>(request.promptIds.size());
  if (length == 0) throw Error("ERR_BATCH", "promptIds is empty: generation needs at least one token of context");
  if (length >= config_.maxPositionEmbeddings)
    throw Error("ERR_PROMPT_TOO_LONG", "promptIds has " + std::to_string(length) + " tokens and the model " +
                                           std::to_string(config_.maxPositionEmbeddings) +
                                           " positions: no room is left to generate");
  for (int64_t i = 0; i < length; ++i)
    if (request.promptIds[i] < 0 || request.promptIds[i] >= config_.vocabSize)
      throw Error("ERR_BATCH", "promptIds[" + std::to_string(i) + "] is " + std::to_string(request.promptIds[i]) +
                                   ", outside the vocabulary of " + std::to_string(config_.vocabSize));
  if (request.sampling.maxTokens < 1) throw Error("ERR_BATCH", "maxTokens must be at least 1");
  const int64_t longest = std::min(length + request.sampling.maxTokens, config_.maxPositionEmbeddings);
  if (blocksFor(longest) > memory_->limit())
    throw Error("ERR_KV_LIMIT", "a sequence of " + std::to_string(longest) + " tokens needs " +
                                    std::to_string(blocksFor(longest) * memory_->shape().bytes()) +
                                    " bytes of keys and values, and the limit is " +
                                    std::to_string(memory_->limit() * memory_->shape().bytes()) +
                                    ": ask for fewer tokens, or raise the limit");
}

void GenerationBatch::add(GenerateRequest request, GenerationWeights weights, std::shared_ptr<const Cancel> cancel,
                          Done&& done) {
  validate(request);
  use(weights.key);
  std::vector<int32_t> tokens = request.promptIds;
  waiting_.push_back(std::unique_ptr<Sequence>(new Sequence{std::move(request), std::move(weights), std::move(cancel),
                                                            nullptr, KvCache(memory_), std::move(tokens)}));
  waiting_.back()->done = std::move(done);
}

// What older weights have computed serves the sequences that still run on them, and no later one.
void GenerationBatch::use(const WeightsKey& newest) {
  uint64_t& known = newest_[newest.adapter];
  if (known == newest.version) return;
  known = newest.version;
  forgetUnused();
}

bool GenerationBatch::isNewest(const WeightsKey& key) const {
  const auto known = newest_.find(key.adapter);
  return known != newest_.end() && known->second == key.version;
}

void GenerationBatch::forgetUnused() {
  prefixes_.keepOnly([this](const WeightsKey& key) {
    const auto isOf = [&key](const auto& sequence) { return sequence->weights.key == key; };
    return isNewest(key) || std::any_of(running_.begin(), running_.end(), isOf) ||
           std::any_of(waiting_.begin(), waiting_.end(), isOf);
  });
}

void GenerationBatch::forget(uint64_t adapter) {
  newest_.erase(adapter);
  forgetUnused();
}

void GenerationBatch::move(const Next& next) {
  for (Sequences* sequences : {&waiting_, &running_}) {
    for (const auto& sequence : *sequences) {
      std::optional<GenerationWeights> weights = next(sequence->weights);
      if (!weights) continue;
      sequence->weights = std::move(*weights);
      sequence->mixed = sequence->cache.length() > 0;
      newest_[sequence->weights.key.adapter] = sequence->weights.key.version;
    }
  }
  forgetUnused();
}

void GenerationBatch::dropCancelled(Sequences& sequences) {
  for (auto at = sequences.begin(); at != sequences.end();) {
    if (!(*at)->cancel->cancelled()) {
      ++at;
      continue;
    }
    const std::unique_ptr<Sequence> sequence = std::move(*at);
    at = sequences.erase(at);
    sequence->done(std::make_exception_ptr(Error("ERR_CANCELLED", "The generation was cancelled.")), {});
  }
}

// Another sequence is about to compute much of what this one begins with.
bool GenerationBatch::waitsForBeginning(const Sequence& sequence) const {
  const int64_t most = sequence.shareable();
  int64_t known = -1;
  for (const auto& other : running_) {
    if (!(other->weights.key == sequence.weights.key) || other->mixed || !other->reading()) continue;
    const int64_t common = commonLength(sequence.tokens, other->tokens, most);
    if (common < leastShared || common <= other->remembered) continue;
    if (known < 0) known = prefixes_.known(sequence.weights.key, sequence.tokens, most);
    if (common - known >= leastShared) return true;
  }
  return false;
}

bool GenerationBatch::makeRoom(int64_t blocks) {
  const int64_t lacking = memory_->used() + blocks - memory_->limit();
  if (lacking <= 0) return true;
  // A few more than are needed now, since finding the oldest means looking at all.
  int64_t freed = prefixes_.evict(std::max(lacking, memory_->limit() / 64));
  while (freed < lacking) {
    // what was a parent may be a leaf now
    const int64_t more = prefixes_.evict(lacking - freed);
    if (more == 0) return false;
    freed += more;
  }
  return true;
}

bool GenerationBatch::admitted(Sequence& sequence) {
  prefixes_.attach(sequence.weights.key, sequence.tokens, sequence.shareable(), sequence.cache.state());
  const int64_t shared = sequence.cache.length();
  // Everyone who runs needs another block before long; one who joins must not take it.
  const int64_t others = static_cast<int64_t>(running_.size());
  const int64_t needed = sequence.cache.state().missing(sequence.length() + 1);
  if (!makeRoom(needed + others) && others > 0) {
    sequence.release();
    return false;
  }
  sequence.remembered = shared;
  done_.sharedTokens += shared;
  return true;
}

void GenerationBatch::admit() {
  for (auto at = waiting_.begin(); at != waiting_.end() && running_.size() < mostRunning;) {
    if (waitsForBeginning(**at)) {
      ++at;
      continue;
    }
    if (!admitted(**at)) return;
    running_.splice(running_.end(), waiting_, at++);
  }
}

void GenerationBatch::reserve() {
  int64_t room = promptTokens;
  for (auto at = running_.begin(); at != running_.end(); ++at) {
    Sequence& sequence = **at;
    sequence.next = sequence.length() - sequence.cache.length();
    if (sequence.reading()) {
      sequence.next = std::min(sequence.next, room);
      room -= sequence.next;
    }
    if (sequence.next == 0) continue;
    KvCache::State& cache = sequence.cache.state();
    const int64_t length = sequence.cache.length() + sequence.next;
    while (!makeRoom(cache.missing(length)) && running_.back().get() != &sequence) {
      running_.back()->release();
      ++done_.preemptions;
      waiting_.splice(waiting_.begin(), running_, std::prev(running_.end()));
    }
    if (memory_->used() + cache.missing(length) > memory_->limit()) {
      // The youngest itself waits for the others; alone it has room without what it shares with the remembered.
      if (running_.size() == 1) prefixes_.clear();
      sequence.release();
      ++done_.preemptions;
      waiting_.splice(waiting_.begin(), running_, at);
      return;
    }
    cache.reserve(length);
  }
}

// Whole blocks serve later sequences at once, and the last one when the prompt is read or all is drawn.
void GenerationBatch::remember(Sequence& sequence) {
  if (sequence.mixed) return;
  const int64_t length = sequence.cache.length();
  const bool tail = sequence.finished || (length == sequence.length() - 1 && sequence.result.tokenIds.size() == 1);
  if (length / blockTokens <= sequence.remembered / blockTokens && !tail) return;
  prefixes_.insert(sequence.weights.key, sequence.tokens, sequence.cache.state(), tail);
  sequence.remembered = tail ? length : length / blockTokens * blockTokens;
}

void GenerationBatch::stepOn(const Compute& compute, const std::shared_ptr<Decoder>& decoder) {
  std::vector<Sequence*> rows;
  for (const auto& sequence : running_)
    if (sequence->weights.decoder == decoder && sequence->next > 0) rows.push_back(sequence.get());
  // Those of one adapter lie side by side: its products are then as few as they can be.
  std::stable_sort(rows.begin(), rows.end(), [](const Sequence* a, const Sequence* b) { return a->weights.key < b->weights.key; });
  std::vector<DecodeInput> inputs;
  for (Sequence* sequence : rows) {
    inputs.push_back({&sequence->cache, sequence->tokens.data() + sequence->cache.length(), sequence->next,
                      sequence->weights.adapter.get()});
    done_.computedTokens += sequence->next;
  }
  logits_.resize(std::max(logits_.size(), rows.size() * static_cast<size_t>(config_.vocabSize)));
  decoder->extend(compute, inputs, logits_.data());
  compute.pool.parallelTasks(static_cast<int64_t>(rows.size()), [&](int64_t i) {
    static thread_local Sampler sampler;
    Sequence& sequence = *rows[i];
    if (sequence.cache.length() < sequence.length()) return;
    try {
      sequence.take(sampler.draw(compute.isa, logits_.data() + i * config_.vocabSize, config_.vocabSize,
                                 sequence.request.sampling, static_cast<uint32_t>(sequence.length())),
                    config_.maxPositionEmbeddings);
    } catch (...) {
      sequence.failure = std::current_exception();
      sequence.finished = true;
    }
  });
}

void GenerationBatch::endFinished() {
  for (auto at = running_.begin(); at != running_.end();) {
    if (!(*at)->finished) {
      ++at;
      continue;
    }
    std::unique_ptr<Sequence> sequence = std::move(*at);
    at = running_.erase(at);
    const Done done = std::move(sequence->done);
    const std::exception_ptr failure = sequence->failure;
    GenerateResult result = std::move(sequence->result);
    const bool isOld = !isNewest(sequence->weights.key);
    sequence = nullptr;
    if (isOld) forgetUnused();
    done(failure, std::move(result));
  }
}

void GenerationBatch::step(const Compute& compute) {
  dropCancelled(waiting_);
  dropCancelled(running_);
  admit();
  reserve();
  std::vector<std::shared_ptr<Decoder>> decoders;
  for (const auto& sequence : running_)
    if (std::find(decoders.begin(), decoders.end(), sequence->weights.decoder) == decoders.end())
      decoders.push_back(sequence->weights.decoder);
  for (const auto& decoder : decoders) stepOn(compute, decoder);
  for (const auto& sequence : running_) {
    remember(*sequence);
    sequence->tell();
  }
  endFinished();
}

void GenerationBatch::fail(std::exception_ptr failure) {
  Sequences all;
  all.splice(all.end(), running_);
  all.splice(all.end(), waiting_);
  for (const auto& sequence : all) sequence->done(failure, {});
}

GenerationStats GenerationBatch::stats() const {
  GenerationStats stats = done_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.kvBytes = memory_->bytes();
  stats.kvLimitBytes = memory_->limit() * memory_->shape().bytes();
  stats.kvBytesPerToken = memory_->shape().bytes() / blockTokens;
  return stats;
}

}  // namespace primerl
