// Vectors of the width of one instruction set. Included inside a namespace of its own per instruction set, with
// PRIMERL_VECTOR_BYTES set, and PRIMERL_MULTIPLY_ADD where `multiplyAdd` is the including file's own. Everything is local
// to the including file, so that no code of a wide instruction set is ever shared with a narrow one.

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  static constexpr int count = PRIMERL_VECTOR_BYTES / 4;
  typedef float V __attribute__((vector_size(PRIMERL_VECTOR_BYTES)));
  typedef float Unaligned __attribute__((vector_size(PRIMERL_VECTOR_BYTES), aligned(4), may_alias));
  typedef int32_t Bits __attribute__((vector_size(PRIMERL_VECTOR_BYTES)));
};

template <>
struct Lanes<double> {
  static constexpr int count = PRIMERL_VECTOR_BYTES / 8;
  typedef double V __attribute__((vector_size(PRIMERL_VECTOR_BYTES)));
  typedef double Unaligned __attribute__((vector_size(PRIMERL_VECTOR_BYTES), aligned(8), may_alias));
  typedef int64_t Bits __attribute__((vector_size(PRIMERL_VECTOR_BYTES)));
};

template <class T>
using V = typename Lanes<T>::V;

template <class T>
static inline V<T> load(const T* p) {
  return *reinterpret_cast<const typename Lanes<T>::Unaligned*>(p);
}

template <class T>
static inline void store(T* p, V<T> v) {
  *reinterpret_cast<typename Lanes<T>::Unaligned*>(p) = v;
}

template <class T>
static inline V<T> splat(T x) {
  return x - V<T>{};
}

/** The first `count` lanes from memory, `fill` in the others. */
template <class T>
static inline V<T> loadPart(const T* p, int64_t count, T fill) {
  V<T> v = splat(fill);
  for (int64_t i = 0; i < count; i++) v[i] = p[i];
  return v;
}

template <class T>
static inline void storePart(T* p, int64_t count, V<T> v) {
  for (int64_t i = 0; i < count; i++) p[i] = v[i];
}

template <class T>
static inline T horizontalSum(V<T> v) {
  T part[Lanes<T>::count];
  for (int i = 0; i < Lanes<T>::count; i++) part[i] = v[i];
  for (int width = Lanes<T>::count / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; i++) part[i] += part[i + width];
  }
  return part[0];
}

template <class T>
static inline T horizontalMax(V<T> v) {
  T best = v[0];
  for (int i = 1; i < Lanes<T>::count; i++) best = v[i] > best ? v[i] : best;
  return best;
}

static inline V<double> exponential(V<double> x) {
  for (int i = 0; i < Lanes<double>::count; i++) x[i] = __builtin_exp(x[i]);
  return x;
}

/**
 * 2^n * e^r with n = round(x / ln 2): a polynomial of degree 6 on |r| <= ln 2 / 2, relative error below 2e-7.
 * Below -87.3 it stays at the smallest normal number; NaN stays NaN.
 */
static inline V<float> exponential(V<float> x) {
  using Bits = Lanes<float>::Bits;
  const V<float> low = splat(-87.33f), high = splat(88.72f);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const V<float> shift = splat(12582912.0f);
  const V<float> shifted = x * splat(1.44269504f) + shift;
  const V<float> n = shifted - shift;
  V<float> r = x - n * splat(0.693359375f);
  r = r + n * splat(2.12194440e-4f);
  V<float> p = splat(1.9875691500e-4f);
  p = p * r + splat(1.3981999507e-3f);
  p = p * r + splat(8.3334519073e-3f);
  p = p * r + splat(4.1665795894e-2f);
  p = p * r + splat(1.6666665459e-1f);
  p = p * r + splat(5.0000001201e-1f);
  p = p * r * r + r + splat(1.0f);
  // n can be 128 at the upper end: two steps keep both powers finite
  const Bits exponent = (Bits)shifted - (Bits)shift;
  const Bits half = exponent >> 1;
  const Bits first = (half + 127) << 23;
  const Bits second = (exponent - half + 127) << 23;
  return p * (V<float>)first * (V<float>)second;
}

static inline V<float> squareRoot(V<float> x) {
  for (int i = 0; i < Lanes<float>::count; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

static inline V<double> squareRoot(V<double> x) {
  for (int i = 0; i < Lanes<double>::count; i++) x[i] = __builtin_sqrt(x[i]);
  return x;
}

#ifndef PRIMERL_MULTIPLY_ADD
template <class V>
static inline V multiplyAdd(V sum, V left, V right) {
  return sum + left * right;
}
#endif
