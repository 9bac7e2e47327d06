// The tile of a product: PRIMERL_TILE_ROWS by two vectors, kept in registers for a chain of K.

/**
 * Products summed in one chain of roundings; the chains' sums are added up on their own. It costs a few per cent of
 * speed and halves the error of log-probabilities against one long chain.
 */
static constexpr int64_t chainLength = 16;

template <class T, int rows, int vectors>
using Sums = V<T>[rows][vectors];

/** The sums over one chain, in registers. */
template <class T, int rows, int vectors>
static inline __attribute__((always_inline)) void sumChain(Sums<T, rows, vectors>& sums, int64_t K, const T* a,
                                                           int64_t aStride, const T* b, int64_t bStride) {
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) sums[r][v] = V<T>{};
  }
  for (int64_t k = 0; k < K; k++) {
    V<T> right[vectors];
    for (int v = 0; v < vectors; v++) right[v] = load(b + v * Lanes<T>::count);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
      const V<T> left = splat(a[r]);
      for (int v = 0; v < vectors; v++) sums[r][v] += left * right[v];
    }
    a += aStride;
    b += bStride;
  }
}

template <class T, int rows, int vectors>
static inline __attribute__((always_inline)) void addSums(Sums<T, rows, vectors>& total,
                                                          const Sums<T, rows, vectors>& sums) {
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) total[r][v] += sums[r][v];
  }
}

template <class T, int rows, int vectors>
static inline __attribute__((always_inline)) void storeSums(const Sums<T, rows, vectors>& sums, int columns, T* c,
                                                            int64_t ldc, bool accumulate) {
  constexpr int lanes = Lanes<T>::count, width = vectors * lanes;
  if (columns == width) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        T* out = c + r * ldc + v * lanes;
        store(out, accumulate ? load(out) + sums[r][v] : sums[r][v]);
      }
    }
    return;
  }
  T edge[rows][width];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) store(edge[r] + v * lanes, sums[r][v]);
  }
  for (int r = 0; r < rows; r++) {
    T* out = c + r * ldc;
    for (int n = 0; n < columns; n++) out[n] = accumulate ? out[n] + edge[r][n] : edge[r][n];
  }
}

template <class T, int rows, int vectors>
static void tileOf(int columns, int64_t K, const T* a, int64_t aStride, const T* b, int64_t bStride, T* c, int64_t ldc,
                   bool accumulate) {
  Sums<T, rows, vectors> total;
  sumChain<T, rows, vectors>(total, K < chainLength ? K : chainLength, a, aStride, b, bStride);
  for (int64_t k = chainLength; k < K; k += chainLength) {
    Sums<T, rows, vectors> sums;
    const int64_t length = K - k < chainLength ? K - k : chainLength;
    sumChain<T, rows, vectors>(sums, length, a + k * aStride, aStride, b + k * bStride, bStride);
    addSums<T, rows, vectors>(total, sums);
  }
  storeSums<T, rows, vectors>(total, columns, c, ldc, accumulate);
}

template <class T, int rows>
static void tileRowsOf(int wanted, int columns, int64_t K, const T* a, int64_t aStride, const T* b, int64_t bStride,
                       T* c, int64_t ldc, bool accumulate) {
  if constexpr (rows == 0) {
    return;
  } else if (wanted < rows) {
    tileRowsOf<T, rows - 1>(wanted, columns, K, a, aStride, b, bStride, c, ldc, accumulate);
  } else if (columns <= Lanes<T>::count) {
    tileOf<T, rows, 1>(columns, K, a, aStride, b, bStride, c, ldc, accumulate);
  } else {
    tileOf<T, rows, 2>(columns, K, a, aStride, b, bStride, c, ldc, accumulate);
  }
}

template <class T>
static void tile(int rows, int columns, int64_t K, const T* a, int64_t aStride, const T* b, int64_t bStride, T* c,
                 int64_t ldc, bool accumulate) {
  tileRowsOf<T, PRIMERL_TILE_ROWS>(rows, columns, K, a, aStride, b, bStride, c, ldc, accumulate);
}

template <class T>
static void packRows(int rows, int64_t K, const T* source, int64_t rowStride, int64_t columnStride, T* out) {
  if (rows == PRIMERL_TILE_ROWS) {
    for (int64_t k = 0; k < K; k++) {
      const T* from = source + k * columnStride;
      for (int r = 0; r < PRIMERL_TILE_ROWS; r++) out[r] = from[r * rowStride];
      out += PRIMERL_TILE_ROWS;
    }
    return;
  }
  for (int64_t k = 0; k < K; k++) {
    const T* from = source + k * columnStride;
    for (int r = 0; r < rows; r++) *out++ = from[r * rowStride];
  }
}

template <class T>
static void packColumns(int columns, int width, int64_t K, const T* source, int64_t rowStride, int64_t columnStride,
                        T* out) {
  if (columns < width) {
    for (int64_t i = 0; i < K * width; i++) out[i] = T(0);
  }
  if (columnStride == 1) {
    for (int64_t k = 0; k < K; k++) {
      const T* from = source + k * rowStride;
      T* to = out + k * width;
      for (int n = 0; n < columns; n++) to[n] = from[n];
    }
    return;
  }
  // a block of k at a time keeps both the lines read and the lines written in the first cache
  constexpr int64_t block = 16;
  for (int64_t k0 = 0; k0 < K; k0 += block) {
    const int64_t end = K - k0 < block ? K : k0 + block;
    for (int n = 0; n < columns; n++) {
      const T* from = source + n * columnStride;
      for (int64_t k = k0; k < end; k++) out[k * width + n] = from[k * rowStride];
    }
  }
}
