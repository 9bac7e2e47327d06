// Row kernels: the last, partial vector is filled with a value that leaves the result as it is.

template <class T>
static T dot(int64_t n, const T* x, const T* y) {
  constexpr int lanes = Lanes<T>::count;
  V<T> sum = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum += load(x + i) * load(y + i);
  if (i < n) sum += loadPart(x + i, n - i, T(0)) * loadPart(y + i, n - i, T(0));
  return horizontalSum<T>(sum);
}

/** Calls `f` on vectors of `x`, `y` and `z` and stores what it returns in `out`. */
template <class T, class F>
static inline void mapThree(int64_t n, const T* x, const T* y, const T* z, T* out, F f) {
  constexpr int lanes = Lanes<T>::count;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(out + i, f(load(x + i), load(y + i), load(z + i)));
  if (i < n) {
    storePart(out + i, n - i,
              f(loadPart(x + i, n - i, T(0)), loadPart(y + i, n - i, T(0)), loadPart(z + i, n - i, T(0))));
  }
}

template <class T, class F>
static inline void mapTwo(int64_t n, const T* x, const T* y, T* out, F f) {
  constexpr int lanes = Lanes<T>::count;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(out + i, f(load(x + i), load(y + i)));
  if (i < n) storePart(out + i, n - i, f(loadPart(x + i, n - i, T(0)), loadPart(y + i, n - i, T(0))));
}

template <class T>
static double sumOfSquares(int64_t n, const T* x) {
  double part[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; j++) part[j] += double(x[i + j]) * double(x[i + j]);
  }
  for (; i < n; i++) part[i % 8] += double(x[i]) * double(x[i]);
  return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7]));
}

/** An error of the scale would move all logits of a row together, so it keeps the digits that one T drops. */
template <class T>
static T rmsNorm(int64_t n, const T* x, const T* w, T eps, T* y) {
  const double exact = 1 / __builtin_sqrt(sumOfSquares(n, x) / double(n) + double(eps));
  const T rstd = T(exact), rest = T(exact - double(rstd));
  mapTwo(n, x, w, y, [=](V<T> xs, V<T> ws) { return (xs * splat(rest) + xs * splat(rstd)) * ws; });
  return rstd;
}

template <class T>
static void rmsNormBackward(int64_t n, const T* x, const T* w, T rstd, const T* dy, T* dx, bool accumulate) {
  constexpr int lanes = Lanes<T>::count;
  V<T> sum = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum += load(dy + i) * load(w + i) * load(x + i);
  if (i < n) {
    sum += loadPart(dy + i, n - i, T(0)) * loadPart(w + i, n - i, T(0)) * loadPart(x + i, n - i, T(0));
  }
  const T pull = horizontalSum<T>(sum) * rstd * rstd * rstd / T(n);
  const auto gradient = [rstd, pull](V<T> dys, V<T> ws, V<T> xs) {
    return dys * ws * splat(rstd) - xs * splat(pull);
  };
  if (!accumulate) {
    mapThree(n, dy, w, x, dx, gradient);
    return;
  }
  for (i = 0; i + lanes <= n; i += lanes) {
    store(dx + i, load(dx + i) + gradient(load(dy + i), load(w + i), load(x + i)));
  }
  if (i < n) {
    const int64_t rest = n - i;
    const V<T> last =
        gradient(loadPart(dy + i, rest, T(0)), loadPart(w + i, rest, T(0)), loadPart(x + i, rest, T(0)));
    storePart(dx + i, rest, loadPart(dx + i, rest, T(0)) + last);
  }
}

template <class T>
static void swiglu(int64_t n, const T* gate, const T* up, T* y) {
  const V<T> one = splat(T(1));
  mapTwo(n, gate, up, y, [one](V<T> g, V<T> u) { return g / (one + exponential(-g)) * u; });
}

template <class T>
static void swigluBackward(int64_t n, T* gate, T* up, const T* dy) {
  constexpr int lanes = Lanes<T>::count;
  const auto gradients = [](V<T>& g, V<T>& u, V<T> d) {
    const V<T> one = splat(T(1));
    const V<T> sigmoid = one / (one + exponential(-g));
    const V<T> silu = g * sigmoid;
    g = d * u * sigmoid * (one + g - silu);
    u = d * silu;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V<T> g = load(gate + i), u = load(up + i);
    gradients(g, u, load(dy + i));
    store(gate + i, g);
    store(up + i, u);
  }
  if (i < n) {
    V<T> g = loadPart(gate + i, n - i, T(0)), u = loadPart(up + i, n - i, T(0));
    gradients(g, u, loadPart(dy + i, n - i, T(0)));
    storePart(gate + i, n - i, g);
    storePart(up + i, n - i, u);
  }
}

template <class T>
static T maximum(int64_t n, const T* x) {
  constexpr int lanes = Lanes<T>::count;
  V<T> best = splat(x[0]);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V<T> v = load(x + i);
    best = v > best ? v : best;
  }
  if (i < n) {
    const V<T> v = loadPart(x + i, n - i, x[0]);
    best = v > best ? v : best;
  }
  return horizontalMax<T>(best);
}

template <class T>
static void softmax(int64_t n, T* x) {
  constexpr int lanes = Lanes<T>::count;
  const T top = maximum(n, x);
  V<T> sum = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V<T> e = exponential(load(x + i) - splat(top));
    store(x + i, e);
    sum += e;
  }
  if (i < n) {
    storePart(x + i, n - i, exponential(loadPart(x + i, n - i, top) - splat(top)));
    sum += loadPart(x + i, n - i, T(0));
  }
  const T scale = T(1) / horizontalSum<T>(sum);
  mapTwo(n, x, x, x, [scale](V<T> e, V<T>) { return e * splat(scale); });
}

template <class T>
static void scoreGradient(int64_t n, T* ds, const T* p, T pull) {
  mapTwo(n, ds, p, ds, [pull](V<T> d, V<T> ps) { return ps * (d - splat(pull)); });
}

template <class T>
static LogitSums<T> logitSums(int64_t n, const T* logits, T inverseTemperature) {
  constexpr int lanes = Lanes<T>::count;
  const T top = maximum(n, logits);
  // float sums are short: each block of vectors goes into a double
  constexpr int64_t block = 256 * lanes;
  double total = 0, moments = 0;
  for (int64_t start = 0; start < n; start += block) {
    const int64_t end = n - start < block ? n : start + block;
    V<T> sum = {}, moment = {};
    int64_t i = start;
    for (; i + lanes <= end; i += lanes) {
      const V<T> z = (load(logits + i) - splat(top)) * splat(inverseTemperature);
      const V<T> e = exponential(z);
      sum += e;
      moment += e * z;
    }
    for (; i < end; i++) {
      const T z = (logits[i] - top) * inverseTemperature;
      const T e = exponential(splat(z))[0];
      total += double(e);
      moments += double(e * z);
    }
    total += double(horizontalSum<T>(sum));
    moments += double(horizontalSum<T>(moment));
  }
  return {top, total, moments};
}

template <class T>
static void logitGradient(int64_t n, T* z, T inverseTemperature, T top, T logTotal, T scale) {
  mapTwo(n, z, z, z, [=](V<T> v, V<T>) {
    return splat(-scale) * exponential((v - splat(top)) * splat(inverseTemperature) - splat(logTotal));
  });
}

template <class T>
static void add(int64_t n, T* y, const T* x) {
  constexpr int lanes = Lanes<T>::count;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store(y + i, load(y + i) + load(x + i));
  for (; i < n; i++) y[i] += x[i];
}

template <class T>
static void addScaledProduct(int64_t n, T* y, T a, const T* x, const T* z) {
  mapThree(n, y, x, z, y, [a](V<T> ys, V<T> xs, V<T> zs) { return ys + splat(a) * xs * zs; });
}

template <class T>
static void adamw(int64_t n, const AdamWStep& step, T* weights, const T* gradients, T* first, T* second) {
  constexpr int lanes = Lanes<T>::count;
  const V<T> clip = splat(T(step.clip)), beta1 = splat(T(step.beta1)), beta2 = splat(T(step.beta2));
  const V<T> rest1 = splat(T(1 - step.beta1)), rest2 = splat(T(1 - step.beta2));
  const V<T> eps = splat(T(step.eps)), size = splat(T(step.stepSize));
  const V<T> correction = splat(T(step.secondCorrection)), decay = splat(T(step.decay));
  const auto update = [&](V<T> g, V<T>& m, V<T>& v, V<T>& w) {
    g = g * clip;
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    w = w * decay - size * m / (squareRoot(v * correction) + eps);
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V<T> m = load(first + i), v = load(second + i), w = load(weights + i);
    update(load(gradients + i), m, v, w);
    store(first + i, m);
    store(second + i, v);
    store(weights + i, w);
  }
  if (i < n) {
    const int64_t left = n - i;
    V<T> m = loadPart(first + i, left, T(0)), v = loadPart(second + i, left, T(0));
    V<T> w = loadPart(weights + i, left, T(0));
    update(loadPart(gradients + i, left, T(0)), m, v, w);
    storePart(first + i, left, m);
    storePart(second + i, left, v);
    storePart(weights + i, left, w);
  }
}

template <class T>
static Kernels<T> makeKernels() {
  return {Lanes<T>::count,
          PRIMERL_TILE_ROWS,
          2 * Lanes<T>::count,
          tile<T>,
          packRows<T>,
          packColumns<T>,
          rmsNorm<T>,
          rmsNormBackward<T>,
          swiglu<T>,
          swigluBackward<T>,
          softmax<T>,
          scoreGradient<T>,
          logitSums<T>,
          logitGradient<T>,
          add<T>,
          addScaledProduct<T>,
          dot<T>,
          adamw<T>};
}
