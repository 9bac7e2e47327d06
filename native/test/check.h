// Counts checks; a test program ends with `return check::close("name")`, which prints the counts.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "primerl/error.h"
#include "primerl/isa.h"

namespace check {

inline int passed = 0;
inline int failed = 0;

inline void that(bool fine, const std::string& what) {
  if (fine) {
    passed++;
  } else {
    failed++;
    std::printf("FAILED %s\n", what.c_str());
  }
}

inline void below(double value, double limit, const std::string& what) {
  char text[64];
  std::snprintf(text, sizeof text, " (%.3g, limit %.3g)", value, limit);
  that(value <= limit, what + text);
}

inline void throws(const std::string& code, const std::function<void()>& action, const std::string& what) {
  try {
    action();
    that(false, what + ": nothing thrown");
  } catch (const primerl::Error& error) {
    that(error.code == code, what + ": code is " + error.code);
  }
}

inline int close(const char* name) {
  std::printf("%s: %d passed, %d failed\n", name, passed, failed);
  return failed == 0 ? 0 : 1;
}

template <class T>
bool sameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/** |a - b| / |b| in the Euclidean norm. */
template <class A, class B>
double relative(const std::vector<A>& a, const std::vector<B>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); i++) {
    difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    size += double(b[i]) * double(b[i]);
  }
  return std::sqrt(difference / (size > 0 ? size : 1));
}

template <class A, class B>
double largestDifference(const std::vector<A>& a, const std::vector<B>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

/** Normal numbers, the same on every platform. */
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  double uniform() { return (double(engine_()) + 0.5) / 4294967296.0; }

  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()); }

  int below(int limit) { return int(uniform() * limit); }

  template <class T>
  std::vector<T> normals(size_t count, double scale = 1) {
    std::vector<T> values(count);
    for (T& value : values) value = T(scale * normal());
    return values;
  }

 private:
  std::mt19937 engine_;
};

/** Instruction sets that this machine runs. */
inline std::vector<primerl::Isa> isas() {
  std::vector<primerl::Isa> list;
  for (const primerl::Isa isa : {primerl::Isa::scalar, primerl::Isa::avx2, primerl::Isa::avx512, primerl::Isa::avx512bf16,
                                 primerl::Isa::amx}) {
    if (primerl::supportsIsa(isa)) list.push_back(isa);
  }
  return list;
}

}  // namespace check
