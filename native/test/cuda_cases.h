// The recorded cases of test/data/cases for programs without Node: enough of JSON and safetensors to read them.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "primerl/layout.h"

namespace cases {

/** A value of JSON; numbers and booleans are doubles, null is neither list nor text. */
struct Json {
  double number = 0;
  std::string text;
  std::vector<Json> list;
  std::map<std::string, Json> fields;

  bool has(const std::string& name) const { return fields.count(name) > 0; }
  const Json& at(const std::string& name) const {
    const auto found = fields.find(name);
    if (found == fields.end()) throw std::runtime_error("the case has no " + name);
    return found->second;
  }

  template <class T>
  std::vector<T> numbers() const {
    std::vector<T> values;
    for (const Json& item : list) values.push_back(T(item.number));
    return values;
  }
};

class Reader {
 public:
  explicit Reader(const std::string& text) : at_(text.c_str()) {}

  Json value() {
    Json json;
    space();
    if (*at_ == '{') {
      for (at_++; space(), *at_ != '}';) {
        if (*at_ == ',') at_++;
        space();
        const std::string name = quoted();
        space();
        at_++;  // the colon
        json.fields[name] = value();
      }
      at_++;
    } else if (*at_ == '[') {
      for (at_++; space(), *at_ != ']';) {
        if (*at_ == ',') at_++;
        json.list.push_back(value());
      }
      at_++;
    } else if (*at_ == '"') {
      json.text = quoted();
    } else if (*at_ == 't' || *at_ == 'f' || *at_ == 'n') {
      json.number = *at_ == 't' ? 1 : 0;
      while (*at_ >= 'a' && *at_ <= 'z') at_++;
    } else {
      char* end = nullptr;
      json.number = std::strtod(at_, &end);
      if (end == at_) throw std::runtime_error(std::string("no JSON: ") + std::string(at_).substr(0, 20));
      at_ = end;
    }
    return json;
  }

 private:
  void space() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') at_++;
  }

  /** Without escapes, which the cases do not have. */
  std::string quoted() {
    const char* begin = ++at_;
    while (*at_ != '"' && *at_ != 0) at_++;
    return std::string(begin, at_++);
  }

  const char* at_;
};

inline std::string fileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Json readJson(const std::string& path) {
  const std::string text = fileText(path);
  return Reader(text).value();
}

inline primerl::ModelConfig modelConfig(const Json& json) {
  primerl::ModelConfig config;
  const auto size = [&](const char* name) { return int64_t(json.at(name).number); };
  config.hiddenSize = size("hidden_size");
  config.intermediateSize = size("intermediate_size");
  config.layers = size("num_hidden_layers");
  config.heads = size("num_attention_heads");
  config.kvHeads = size("num_key_value_heads");
  config.headDim = json.has("head_dim") ? size("head_dim") : config.hiddenSize / config.heads;
  config.vocabSize = size("vocab_size");
  config.maxPositionEmbeddings = size("max_position_embeddings");
  config.rmsNormEps = json.at("rms_norm_eps").number;
  config.ropeTheta = json.at("rope_theta").number;
  config.tieWordEmbeddings = json.has("tie_word_embeddings") && json.at("tie_word_embeddings").number != 0;
  config.qkNorm = json.at("model_type").text == "qwen3";
  config.qkvBias = json.at("model_type").text == "qwen2";
  if (json.has("rope_scaling") && json.at("rope_scaling").has("factor")) {
    const Json& scaling = json.at("rope_scaling");
    config.ropeScaling = {true, scaling.at("factor").number, scaling.at("low_freq_factor").number,
                          scaling.at("high_freq_factor").number,
                          int64_t(scaling.at("original_max_position_embeddings").number)};
  }
  return config;
}

/** The arena of `layout` from a file of float32 tensors. */
inline std::vector<float> readWeights(const std::string& path, const primerl::Layout& layout) {
  const std::string bytes = fileText(path);
  uint64_t headerLength = 0;
  std::memcpy(&headerLength, bytes.data(), 8);
  const std::string text = bytes.substr(8, headerLength);
  const Json header = Reader(text).value();
  std::vector<float> arena(static_cast<size_t>(layout.total()));
  for (const primerl::TensorSpec& tensor : layout.tensors()) {
    const Json& entry = header.at(tensor.name);
    const std::vector<uint64_t> range = entry.at("data_offsets").numbers<uint64_t>();
    if (entry.at("dtype").text != "F32" || range[1] - range[0] != uint64_t(tensor.count) * 4) {
      throw std::runtime_error(tensor.name + " is not the float32 tensor that the model has");
    }
    std::memcpy(arena.data() + tensor.offset, bytes.data() + 8 + headerLength + range[0], range[1] - range[0]);
  }
  return arena;
}

}  // namespace cases
