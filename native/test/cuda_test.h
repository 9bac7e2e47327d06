// Kernels on the emulated device under every schedule; or, compiled by nvcc, twice on a real one.
#pragma once

#include "cuda/runtime.h"
#include "expect.h"

namespace device {

using primerl::cuda::bf16;
using primerl::cuda::Context;
using primerl::cuda::DeviceBuffer;

using Results = std::vector<std::vector<float>>;

/** What all runs gave; it must be the same bits. */
inline Results everySchedule(const std::string& what, const std::function<Results()>& run) {
#if defined(__CUDACC__)
  const std::vector<std::function<void()>> turns(2, [] {});
#else
  std::vector<std::function<void()>> turns;
  for (const emulation::Schedule schedule : emulation::schedules) {
    turns.push_back([schedule] { emulation::use(schedule, 5); });
  }
#endif
  Results first;
  for (size_t turn = 0; turn < turns.size(); turn++) {
    turns[turn]();
    const Results results = run();
    if (turn == 0) {
      first = results;
      continue;
    }
    bool same = results.size() == first.size();
    for (size_t i = 0; same && i < first.size(); i++) same = check::sameBits(results[i], first[i]);
    check::that(same, what + ": the order of threads changes no bit, turn " + std::to_string(turn));
  }
  return first;
}

template <class T>
const char* typeName() {
  return sizeof(T) == 2 ? "bfloat16" : "float32";
}

/** What T keeps of a number. */
template <class T>
double kept(double value) {
  return double(primerl::cuda::toFloat(primerl::cuda::fromFloat<T>(float(value))));
}

template <class T>
std::vector<double> normals(check::Random& random, int64_t count, double scale = 1) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = kept<T>(scale * random.normal());
  return values;
}

/** A list on the device, as T. */
template <class T>
class List {
 public:
  List(const Context& context, const std::vector<double>& values) : context_(context), count_(int64_t(values.size())) {
    std::vector<T> rounded;
    for (const double value : values) rounded.push_back(primerl::cuda::fromFloat<T>(float(value)));
    buffer_.fill(context, rounded);
  }
  List(const Context& context, int64_t count) : context_(context), count_(count) { buffer_.need(count); }

  T* data() { return buffer_.data(); }

  std::vector<float> values() const {
    std::vector<float> list;
    for (const T value : buffer_.toHost(context_, count_)) list.push_back(primerl::cuda::toFloat(value));
    return list;
  }

 private:
  const Context& context_;
  int64_t count_;
  DeviceBuffer<T> buffer_;
};

/** Relative, of a result that is rounded to T once or twice. */
template <class T>
double limit() {
  return sizeof(T) == 2 ? 6e-3 : 1e-5;
}

template <class T>
void near(const std::vector<float>& actual, const std::vector<double>& expected, const std::string& what) {
  check::below(check::relative(actual, expected), limit<T>(), what + ", " + typeName<T>());
}

}  // namespace device
