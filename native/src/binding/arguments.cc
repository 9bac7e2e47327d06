#include "arguments.h"

#include <cmath>
#include <limits>
#include <new>
#include <unordered_map>

namespace primerl {
namespace {

Napi::Error withCode(Napi::Error error, const char* code) {
  error.Value().Set("code", code);
  return error;
}

template <class Element>
std::vector<Element> copyOf(const Napi::TypedArrayOf<Element>& array) {
  return std::vector<Element>(array.Data(), array.Data() + array.ElementLength());
}

Napi::TypedArray typedArray(const Napi::Value& value, const std::string& name, napi_typedarray_type type,
                            const char* typeName) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != type)
    throwTypeError(value.Env(), name + " must be " + (typeName[0] == 'I' ? "an " : "a ") + typeName);
  return value.As<Napi::TypedArray>();
}

void requireLength(Napi::Env env, const std::string& name, size_t length, size_t expected) {
  if (length != expected)
    throwRangeError(env, name + " has " + std::to_string(length) + " entries, expected " + std::to_string(expected));
}

bool present(const Napi::Value& value) { return !value.IsUndefined() && !value.IsNull(); }

}  // namespace

void throwTypeError(Napi::Env env, const std::string& message) {
  throw withCode(Napi::TypeError::New(env, message), "ERR_INVALID_ARG_TYPE");
}

void throwRangeError(Napi::Env env, const std::string& message) {
  throw withCode(Napi::RangeError::New(env, message), "ERR_OUT_OF_RANGE");
}

Napi::Error toJs(Napi::Env env, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code == "ERR_BATCH") return withCode(Napi::RangeError::New(env, error.what()), "ERR_BATCH");
    return withCode(Napi::Error::New(env, error.what()), error.code.c_str());
  } catch (const std::bad_alloc&) {
    return withCode(Napi::Error::New(env, "out of memory"), "ERR_OUT_OF_MEMORY");
  } catch (const std::exception& error) {
    return withCode(Napi::Error::New(env, error.what()), "ERR_NATIVE");
  } catch (...) {
    return withCode(Napi::Error::New(env, "the native engine failed in an unknown way"), "ERR_NATIVE");
  }
}

Napi::Object objectOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsObject()) throwTypeError(value.Env(), name + " must be an object");
  return value.As<Napi::Object>();
}

std::string stringOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsString()) throwTypeError(value.Env(), name + " must be a string");
  return value.As<Napi::String>().Utf8Value();
}

bool booleanOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsBoolean()) throwTypeError(value.Env(), name + " must be a boolean");
  return value.As<Napi::Boolean>().Value();
}

double finiteOf(const Napi::Value& value, const std::string& name) {
  if (!value.IsNumber()) throwTypeError(value.Env(), name + " must be a number");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!std::isfinite(number)) throwRangeError(value.Env(), name + " must be finite");
  return number;
}

int64_t integerOf(const Napi::Value& value, const std::string& name, int64_t least, int64_t most) {
  const double number = finiteOf(value, name);
  if (number != std::floor(number) || number < static_cast<double>(least) || number > static_cast<double>(most))
    throwRangeError(value.Env(), name + " must be an integer from " + std::to_string(least) + " to " +
                                     std::to_string(most) + ", not " + value.ToString().Utf8Value());
  return static_cast<int64_t>(number);
}

Napi::Function optionalFunctionOf(const Napi::Value& value, const std::string& name) {
  if (value.IsUndefined()) return {};
  if (!value.IsFunction()) throwTypeError(value.Env(), name + " must be a function");
  return value.As<Napi::Function>();
}

Napi::Float32Array float32Of(const Napi::Value& value, const std::string& name, size_t length) {
  typedArray(value, name, napi_float32_array, "Float32Array");
  requireLength(value.Env(), name, value.As<Napi::Float32Array>().ElementLength(), length);
  return value.As<Napi::Float32Array>();
}

std::vector<float> floatsOf(const Napi::Value& value, const std::string& name, size_t length) {
  return copyOf(float32Of(value, name, length));
}

std::vector<int32_t> int32sOf(const Napi::Value& value, const std::string& name) {
  typedArray(value, name, napi_int32_array, "Int32Array");
  return copyOf(value.As<Napi::Int32Array>());
}

std::vector<uint8_t> bytesOf(const Napi::Value& value, const std::string& name) {
  typedArray(value, name, napi_uint8_array, "Uint8Array");
  return copyOf(value.As<Napi::Uint8Array>());
}

ModelConfig modelConfigOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "config");
  const auto count = [&](const char* name) {
    return integerOf(from.Get(name), std::string("config.") + name, 1, std::numeric_limits<int32_t>::max());
  };
  const auto number = [&](const char* name) { return finiteOf(from.Get(name), std::string("config.") + name); };
  const auto flag = [&](const char* name) { return booleanOf(from.Get(name), std::string("config.") + name); };
  ModelConfig config;
  config.hiddenSize = count("hiddenSize");
  config.intermediateSize = count("intermediateSize");
  config.layers = count("layers");
  config.heads = count("heads");
  config.kvHeads = count("kvHeads");
  config.headDim = count("headDim");
  config.vocabSize = count("vocabSize");
  config.maxPositionEmbeddings = count("maxPositionEmbeddings");
  config.rmsNormEps = number("rmsNormEps");
  config.ropeTheta = number("ropeTheta");
  config.tieWordEmbeddings = flag("tieWordEmbeddings");
  config.qkNorm = flag("qkNorm");
  config.qkvBias = flag("qkvBias");
  config.outputBias = flag("outputBias");
  config.mlpBias = flag("mlpBias");
  const Napi::Value scaling = from.Get("ropeScaling");
  if (present(scaling)) {
    const Napi::Object rope = objectOf(scaling, "config.ropeScaling");
    config.ropeScaling.enabled = true;
    config.ropeScaling.factor = finiteOf(rope.Get("factor"), "config.ropeScaling.factor");
    config.ropeScaling.lowFreqFactor = finiteOf(rope.Get("lowFreqFactor"), "config.ropeScaling.lowFreqFactor");
    config.ropeScaling.highFreqFactor = finiteOf(rope.Get("highFreqFactor"), "config.ropeScaling.highFreqFactor");
    config.ropeScaling.originalMaxPositionEmbeddings =
        integerOf(rope.Get("originalMaxPositionEmbeddings"), "config.ropeScaling.originalMaxPositionEmbeddings", 1,
                  std::numeric_limits<int32_t>::max());
  }
  config.validate();
  return config;
}

LossSpec lossOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "loss");
  const auto number = [&](const char* name) { return finiteOf(from.Get(name), std::string("loss.") + name); };
  const auto notNegative = [&](const char* name) {
    const double given = number(name);
    if (given < 0) throwRangeError(value.Env(), std::string("loss.") + name + " must not be negative");
    return given;
  };
  const std::string kernel = stringOf(from.Get("kernel"), "loss.kernel");
  LossSpec loss;
  const std::unordered_map<std::string, RlKernel> kernels{
      {"dppo", RlKernel::dppo},   {"ipo", RlKernel::ipo},       {"ppo_clip", RlKernel::ppoClip},
      {"cispo", RlKernel::cispo}, {"icepop", RlKernel::icepop}, {"importance_sampling", RlKernel::importanceSampling}};
  const auto found = kernels.find(kernel);
  if (found == kernels.end()) throwRangeError(value.Env(), "loss.kernel \"" + kernel + "\" is unknown");
  loss.kernel = found->second;
  if (loss.kernel == RlKernel::dppo || loss.kernel == RlKernel::ipo) {
    loss.advantageTau = number("advantageTau");
    loss.klTau = number("klTau");
  }
  if (loss.kernel == RlKernel::dppo) {
    loss.maskLow = number("maskLow");
    loss.maskHigh = number("maskHigh");
  } else if (loss.kernel == RlKernel::ipo) {
    loss.threshold = number("threshold");
  } else if (loss.kernel == RlKernel::ppoClip || loss.kernel == RlKernel::cispo) {
    loss.clipLow = notNegative("clipLow");
    loss.clipHigh = notNegative("clipHigh");
  } else if (loss.kernel == RlKernel::icepop) {
    loss.ratioLow = notNegative("ratioLow");
    loss.ratioHigh = notNegative("ratioHigh");
  }
  return loss;
}

Counts countsOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "counts");
  const auto count = [&](const char* name) {
    return static_cast<double>(integerOf(from.Get(name), std::string("counts.") + name, 0, int64_t{1} << 53));
  };
  Counts counts;
  counts.rl = count("rl");
  counts.ce = count("ce");
  counts.refKl = count("refKl");
  return counts;
}

LoraOptions loraOptionsOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "options");
  LoraOptions options;
  options.rank = integerOf(from.Get("rank"), "options.rank", 1, std::numeric_limits<int32_t>::max());
  options.scale = finiteOf(from.Get("scale"), "options.scale");
  options.dropout = finiteOf(from.Get("dropout"), "options.dropout");
  options.seed = static_cast<uint64_t>(integerOf(from.Get("seed"), "options.seed", 0, std::numeric_limits<uint32_t>::max()));
  const Napi::Value modules = from.Get("modules");
  if (!modules.IsArray()) throwTypeError(value.Env(), "options.modules must be an array");
  const Napi::Array list = modules.As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); ++i)
    options.modules.push_back(stringOf(list.Get(i), "options.modules[" + std::to_string(i) + "]"));
  return options;
}

AdamW adamwOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "step");
  const auto number = [&](const char* name) { return finiteOf(from.Get(name), std::string("step.") + name); };
  AdamW step;
  step.learningRate = number("learningRate");
  step.beta1 = number("beta1");
  step.beta2 = number("beta2");
  step.eps = number("eps");
  step.weightDecay = number("weightDecay");
  for (const double beta : {step.beta1, step.beta2})
    if (beta < 0 || beta >= 1) throwRangeError(value.Env(), "step.beta1 and step.beta2 must be in [0, 1)");
  const Napi::Value clip = from.Get("maxGradNorm");
  if (present(clip)) {
    step.maxGradNorm = finiteOf(clip, "step.maxGradNorm");
    if (step.maxGradNorm <= 0) throwRangeError(value.Env(), "step.maxGradNorm must be positive, or undefined");
  }
  return step;
}

GenerateRequest requestOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "request");
  const auto share = [&](const char* name) {
    const double number = finiteOf(from.Get(name), std::string("request.") + name);
    if (number < 0 || number > 1) throwRangeError(value.Env(), std::string("request.") + name + " must be in [0, 1]");
    return static_cast<float>(number);
  };
  GenerateRequest request;
  request.promptIds = int32sOf(from.Get("promptIds"), "request.promptIds");
  request.sampling.stopIds = int32sOf(from.Get("stopTokenIds"), "request.stopTokenIds");
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  request.sampling.maxTokens = static_cast<int>(integerOf(from.Get("maxTokens"), "request.maxTokens", 1, most));
  request.sampling.topK = static_cast<int>(integerOf(from.Get("topK"), "request.topK", 0, most));
  request.sampling.topP = share("topP");
  request.sampling.minP = share("minP");
  const double temperature = finiteOf(from.Get("temperature"), "request.temperature");
  if (temperature < 0) throwRangeError(value.Env(), "request.temperature must not be negative");
  request.sampling.temperature = static_cast<float>(temperature);
  request.sampling.seed = static_cast<uint32_t>(
      integerOf(from.Get("seed"), "request.seed", 0, std::numeric_limits<uint32_t>::max()));
  return request;
}

Precision precisionOf(const Napi::Value& value, const std::string& name) {
  const std::string precision = stringOf(value, name);
  if (precision == "float32") return Precision::float32;
  if (precision == "bfloat16") return Precision::bfloat16;
  if (precision == "bfloat16x3") return Precision::bfloat16x3;
  throwRangeError(value.Env(), name + " \"" + precision + "\" is unknown; there are float32, bfloat16 and bfloat16x3");
}

bool isCuda(const Napi::Value& value, const std::string& name) {
  const std::string device = stringOf(value, name);
  if (device == "cpu" || device == "cuda") return device == "cuda";
  throwRangeError(value.Env(), name + " \"" + device + "\" is unknown; there are cpu and cuda");
}

DType dtypeOf(const Napi::Value& value, const std::string& name) {
  const std::string dtype = stringOf(value, name);
  if (dtype == "F32") return DType::f32;
  if (dtype == "F16") return DType::f16;
  if (dtype == "BF16") return DType::bf16;
  throwRangeError(value.Env(), name + " \"" + dtype + "\" is unknown; there are F32, F16 and BF16");
}

Tokens OwnedTokens::view() const {
  Tokens tokens;
  tokens.tokens = static_cast<int64_t>(tokenIds.size());
  tokens.tokenIds = tokenIds.data();
  tokens.sequences = static_cast<int64_t>(sequenceLengths.size());
  tokens.sequenceLengths = sequenceLengths.data();
  tokens.temperatures = temperatures.data();
  return tokens;
}

Batch OwnedBatch::view() const {
  Batch batch;
  static_cast<Tokens&>(batch) = OwnedTokens::view();
  batch.mask = mask.data();
  batch.logprobs = logprobs.data();
  batch.advantages = advantages.data();
  batch.referenceLogprobs = hasReference ? referenceLogprobs.data() : nullptr;
  batch.rlWeights = hasRl ? rlWeights.data() : nullptr;
  batch.ceWeights = hasCe ? ceWeights.data() : nullptr;
  batch.refKlWeights = hasRefKl ? refKlWeights.data() : nullptr;
  return batch;
}

OwnedTokens tokensOf(const Napi::Value& ids, const Napi::Value& lengths, const Napi::Value& temperatures) {
  OwnedTokens tokens;
  tokens.tokenIds = int32sOf(ids, "tokenIds");
  tokens.sequenceLengths = int32sOf(lengths, "sequenceLengths");
  tokens.temperatures = floatsOf(temperatures, "temperatures", tokens.tokenIds.size());
  int64_t sum = 0;
  for (const int32_t length : tokens.sequenceLengths) {
    if (length < 1) throwRangeError(ids.Env(), "sequenceLengths must be positive, not " + std::to_string(length));
    sum += length;
  }
  if (sum != static_cast<int64_t>(tokens.tokenIds.size()))
    throwRangeError(ids.Env(), "sequenceLengths sum to " + std::to_string(sum) + ", tokenIds has " +
                                   std::to_string(tokens.tokenIds.size()) + " entries");
  return tokens;
}

OwnedBatch batchOf(const Napi::Value& value) {
  const Napi::Object from = objectOf(value, "batch");
  OwnedBatch batch;
  static_cast<OwnedTokens&>(batch) =
      tokensOf(from.Get("tokenIds"), from.Get("sequenceLengths"), from.Get("temperatures"));
  const size_t tokens = batch.tokenIds.size();
  batch.mask = bytesOf(from.Get("mask"), "mask");
  requireLength(value.Env(), "mask", batch.mask.size(), tokens);
  batch.logprobs = floatsOf(from.Get("logprobs"), "logprobs", tokens);
  batch.advantages = floatsOf(from.Get("advantages"), "advantages", tokens);
  const auto optional = [&](const char* name, std::vector<float>& into) {
    const Napi::Value stream = from.Get(name);
    if (!present(stream)) return false;
    into = floatsOf(stream, name, tokens);
    return true;
  };
  batch.hasReference = optional("referenceLogprobs", batch.referenceLogprobs);
  batch.hasRl = optional("rlWeights", batch.rlWeights);
  batch.hasCe = optional("ceWeights", batch.ceWeights);
  batch.hasRefKl = optional("refKlWeights", batch.refKlWeights);
  return batch;
}

}  // namespace primerl
