// JavaScript values to C++ ones. Whatever does not fit is a TypeError or RangeError that names the argument; data is
// copied, so that nothing the caller does to its arrays later can reach a running job.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

#include "generate.h"
#include "network.h"

namespace primerl {

[[noreturn]] void throwTypeError(Napi::Env env, const std::string& message);
[[noreturn]] void throwRangeError(Napi::Env env, const std::string& message);

/** The error that JavaScript sees: its message, and `code`. */
Napi::Error toJs(Napi::Env env, std::exception_ptr failure);

Napi::Object objectOf(const Napi::Value& value, const std::string& name);
std::string stringOf(const Napi::Value& value, const std::string& name);
bool booleanOf(const Napi::Value& value, const std::string& name);
double finiteOf(const Napi::Value& value, const std::string& name);
int64_t integerOf(const Napi::Value& value, const std::string& name, int64_t least, int64_t most);

/** Empty when the value is undefined. */
Napi::Function optionalFunctionOf(const Napi::Value& value, const std::string& name);

/** Checks that the value is a Float32Array of `length` entries. */
Napi::Float32Array float32Of(const Napi::Value& value, const std::string& name, size_t length);
std::vector<float> floatsOf(const Napi::Value& value, const std::string& name, size_t length);
std::vector<int32_t> int32sOf(const Napi::Value& value, const std::string& name);
std::vector<uint8_t> bytesOf(const Napi::Value& value, const std::string& name);

ModelConfig modelConfigOf(const Napi::Value& value);
LossSpec lossOf(const Napi::Value& value);
Counts countsOf(const Napi::Value& value);
LoraOptions loraOptionsOf(const Napi::Value& value);
AdamW adamwOf(const Napi::Value& value);
GenerateRequest requestOf(const Napi::Value& value);
/** "float32", "bfloat16" or "bfloat16x3". */
Precision precisionOf(const Napi::Value& value, const std::string& name);
bool isCuda(const Napi::Value& value, const std::string& name);
DType dtypeOf(const Napi::Value& value, const std::string& name);

/** The streams of a batch, and the view of them that the core reads. */
struct OwnedTokens {
  std::vector<int32_t> tokenIds, sequenceLengths;
  std::vector<float> temperatures;
  Tokens view() const;
};
struct OwnedBatch : OwnedTokens {
  std::vector<uint8_t> mask;
  std::vector<float> logprobs, advantages, referenceLogprobs, rlWeights, ceWeights, refKlWeights;
  bool hasReference = false, hasRl = false, hasCe = false, hasRefKl = false;
  Batch view() const;
};

OwnedTokens tokensOf(const Napi::Value& ids, const Napi::Value& lengths, const Napi::Value& temperatures);
OwnedBatch batchOf(const Napi::Value& value);

}  // namespace primerl
