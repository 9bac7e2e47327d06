#include "generate.h"

#include <algorithm>
#include <string>

namespace primerl {
namespace {

// Prompt tokens read per step: enough to use the machine well, little enough not to hold up the others for long.
constexpr int64_t kPromptTokens = 2048;
// Sequences per step.
constexpr size_t kRows = 256;
// Shorter common beginnings are cheaper to compute than to copy.
constexpr int64_t kLeastShared = 16;

}  // namespace

struct GenerationBatch::Sequence {
  GenerateRequest request;
  std::shared_ptr<Decoder> decoder;
  std::shared_ptr<const Cancel> cancel;
  Done done;
  KvCache cache;
  std::vector<int32_t> tokens;  // prompt, then what was drawn
  GenerateResult result;
  std::exception_ptr failure;
  bool finished = false;
  size_t told = 0;  // draws that `onDraw` has heard of

  int64_t promptLength() const { return static_cast<int64_t>(request.promptIds.size()); }
  bool reading() const { return result.tokenIds.empty(); }

  void take(const Draw& draw, int64_t maxPositions) {
    tokens.push_back(draw.id);
    result.tokenIds.push_back(draw.id);
    result.logprobs.push_back(draw.logprob);
    const std::vector<int32_t>& stops = request.sampling.stopIds;
    result.stopped = std::find(stops.begin(), stops.end(), draw.id) != stops.end();
    finished = result.stopped || static_cast<int64_t>(result.tokenIds.size()) >= request.sampling.maxTokens ||
               static_cast<int64_t>(tokens.size()) >= maxPositions;
  }

  void tell() {
    if (!request.onDraw) return;
    for (; told < result.tokenIds.size(); ++told) request.onDraw({result.tokenIds[told], result.logprobs[told]});
  }
};

GenerationBatch::GenerationBatch(const ModelConfig& config) : config_(config) {}
GenerationBatch::~GenerationBatch() = default;

void GenerationBatch::validate(const ModelConfig& config, const GenerateRequest& request) {
  const int64_t length = static_cast<int64_t>(request.promptIds.size());
  if (length == 0) throw Error("ERR_BATCH", "promptIds is empty: generation needs at least one token of context");
  if (length >= config.maxPositionEmbeddings)
    throw Error("ERR_PROMPT_TOO_LONG", "promptIds has " + std::to_string(length) + " tokens and the model " +
                                           std::to_string(config.maxPositionEmbeddings) +
                                           " positions: no room is left to generate");
  for (int64_t i = 0; i < length; ++i)
    if (request.promptIds[i] < 0 || request.promptIds[i] >= config.vocabSize)
      throw Error("ERR_BATCH", "promptIds[" + std::to_string(i) + "] is " + std::to_string(request.promptIds[i]) +
                                   ", outside the vocabulary of " + std::to_string(config.vocabSize));
  if (request.sampling.maxTokens < 1) throw Error("ERR_BATCH", "maxTokens must be at least 1");
}

void GenerationBatch::add(GenerateRequest request, std::shared_ptr<Decoder> decoder, uint64_t weightsVersion,
                          std::shared_ptr<const Cancel> cancel, Done&& done) {
  validate(config_, request);
  KvCache cache = decoder->newCache();
  std::vector<int32_t> tokens = request.promptIds;
  GenerateResult result;
  result.weightsVersion = weightsVersion;
  sequences_.push_back(std::unique_ptr<Sequence>(new Sequence{std::move(request), std::move(decoder), std::move(cancel),
                                                              nullptr, std::move(cache), std::move(tokens),
                                                              std::move(result), nullptr, false, 0}));
  sequences_.back()->done = std::move(done);
}

void GenerationBatch::dropCancelled() {
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    if (!(*at)->cancel->cancelled()) {
      ++at;
      continue;
    }
    const std::unique_ptr<Sequence> sequence = std::move(*at);
    at = sequences_.erase(at);
    sequence->done(std::make_exception_ptr(Error("ERR_CANCELLED", "The generation was cancelled.")), {});
  }
}

// Takes over the longest beginning that another sequence has computed; false while that one is still computing it.
bool GenerationBatch::shareOrWait(Sequence& sequence) {
  if (sequence.cache.length() > 0) return true;
  const int64_t most = sequence.promptLength() - 1;  // the last token is computed anew, for its logits
  const Sequence* donor = nullptr;
  int64_t shared = kLeastShared - 1;
  for (const auto& other : sequences_) {
    if (other.get() == &sequence) break;
    if (other->decoder != sequence.decoder) continue;
    const int64_t limit = std::min<int64_t>(most, other->tokens.size());
    int64_t common = 0;
    while (common < limit && other->tokens[common] == sequence.tokens[common]) ++common;
    if (common > shared) {
      shared = common;
      donor = other.get();
    }
  }
  if (donor == nullptr) return true;
  if (donor->cache.length() < shared && donor->reading()) return false;
  sequence.cache = donor->cache.fork(std::min(shared, donor->cache.length()));
  return true;
}

void GenerationBatch::stepOn(const Compute& compute, const std::shared_ptr<Decoder>& decoder) {
  std::vector<Sequence*> rows;
  std::vector<DecodeInput> inputs;
  int64_t room = kPromptTokens;
  for (const auto& sequence : sequences_) {
    if (sequence->decoder != decoder || rows.size() == kRows) continue;
    const bool reading = sequence->reading();
    if (reading && (room == 0 || !shareOrWait(*sequence))) continue;
    const int64_t from = sequence->cache.length();
    int64_t count = static_cast<int64_t>(sequence->tokens.size()) - from;
    if (reading) {
      count = std::min(count, room);
      room -= count;
    }
    rows.push_back(sequence.get());
    inputs.push_back({&sequence->cache, sequence->tokens.data() + from, count});
  }
  logits_.resize(rows.size() * static_cast<size_t>(config_.vocabSize));
  decoder->extend(compute, inputs, logits_.data());
  compute.pool.parallelFor(static_cast<int64_t>(rows.size()), [&](int64_t begin, int64_t end) {
    Sampler sampler;
    for (int64_t i = begin; i < end; ++i) {
      Sequence& sequence = *rows[i];
      if (sequence.cache.length() < static_cast<int64_t>(sequence.tokens.size())) continue;
      try {
        const float* row = logits_.data() + i * config_.vocabSize;
        const Draw draw = sampler.draw(row, static_cast<int>(config_.vocabSize), sequence.request.sampling,
                                       static_cast<uint32_t>(sequence.tokens.size()));
        sequence.take(draw, config_.maxPositionEmbeddings);
      } catch (...) {
        sequence.failure = std::current_exception();
        sequence.finished = true;
      }
    }
  });
}

void GenerationBatch::step(const Compute& compute) {
  dropCancelled();
  std::vector<std::shared_ptr<Decoder>> decoders;
  for (const auto& sequence : sequences_)
    if (std::find(decoders.begin(), decoders.end(), sequence->decoder) == decoders.end())
      decoders.push_back(sequence->decoder);
  for (const auto& decoder : decoders) stepOn(compute, decoder);
  for (const auto& sequence : sequences_) sequence->tell();
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    if (!(*at)->finished) {
      ++at;
      continue;
    }
    const std::unique_ptr<Sequence> sequence = std::move(*at);
    at = sequences_.erase(at);
    sequence->done(sequence->failure, std::move(sequence->result));
  }
}

void GenerationBatch::fail(std::exception_ptr failure) {
  Sequences all;
  all.swap(sequences_);
  for (const auto& sequence : all) sequence->done(failure, {});
}

}  // namespace primerl
