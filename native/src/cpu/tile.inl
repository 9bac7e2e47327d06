// The tile of a product: PRIMERL_TILE_ROWS by two vectors, kept in registers for a chain of K. What a product of two
// elements is, `multiplyAdd` says, and how many make a chain, `chainLength`; both come from the including file.

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
      for (int v = 0; v < vectors; v++) sums[r][v] = multiplyAdd(sums[r][v], left, right[v]);
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

/** One of the log2(lanes) steps of a transposition: swaps the halves of length `step` across two rows. */
template <class T, int step>
static inline __attribute__((always_inline)) void exchange(V<T>& a, V<T>& b) {
  constexpr int lanes = Lanes<T>::count;
  typename Lanes<T>::Bits first, second;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i++) {
    first[i] = (i & step) != 0 ? lanes + i - step : i;
    second[i] = (i & step) != 0 ? lanes + i : i + step;
  }
  const V<T> x = __builtin_shuffle(a, b, first);
  b = __builtin_shuffle(a, b, second);
  a = x;
}

template <class T, int step>
static inline __attribute__((always_inline)) void transposeFrom(V<T> (&block)[Lanes<T>::count]) {
  constexpr int lanes = Lanes<T>::count;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i++) {
    if ((i & step) == 0) exchange<T, step>(block[i], block[i + step]);
  }
  if constexpr (2 * step < lanes) transposeFrom<T, 2 * step>(block);
}

/** Column k of `count` rows goes to out + k * stride, for one vector of columns; what lies beyond is overwritten. */
template <class T, int count>
static inline __attribute__((always_inline)) void transposeBlock(const T* source, int64_t rowStride, T* out,
                                                                 int64_t stride, bool whole) {
  constexpr int lanes = Lanes<T>::count;
  V<T> block[lanes];
#pragma GCC unroll 16
  for (int r = 0; r < lanes; r++) block[r] = r < count ? load(source + r * rowStride) : V<T>{};
  transposeFrom<T, 1>(block);
#pragma GCC unroll 16
  for (int k = 0; k + 1 < lanes; k++) store(out + k * stride, block[k]);
  T* last = out + (lanes - 1) * stride;
  if (whole || count == lanes) {
    store(last, block[lanes - 1]);
  } else {
    for (int r = 0; r < count; r++) last[r] = block[lanes - 1][r];
  }
}

template <class T>
static void packRows(int rows, int64_t K, const T* source, int64_t rowStride, int64_t columnStride, T* out) {
  constexpr int height = PRIMERL_TILE_ROWS, lanes = Lanes<T>::count;
  static_assert(height <= lanes || height % lanes == 0, "rows are transposed a vector at a time");
  if (rows == height && rowStride == 1) {
    for (int64_t k = 0; k < K; k++) __builtin_memcpy(out + k * height, source + k * columnStride, height * sizeof(T));
    return;
  }
  int64_t k = 0;
  if (rows == height && columnStride == 1) {
    constexpr int part = height < lanes ? height : lanes;
    for (; k + lanes <= K; k += lanes) {
      for (int r = 0; r < height; r += part) {
        transposeBlock<T, part>(source + r * rowStride + k, rowStride, out + k * height + r, height, k + lanes < K);
      }
    }
  }
  for (; k < K; k++) {
    const T* from = source + k * columnStride;
    for (int r = 0; r < rows; r++) out[k * rows + r] = from[r * rowStride];
  }
}

template <class T>
static void packColumns(int columns, int width, int64_t K, const T* source, int64_t rowStride, int64_t columnStride,
                        T* out) {
  constexpr int lanes = Lanes<T>::count, full = 2 * lanes;
  if (columns == full && width == full && columnStride == 1) {
    for (int64_t k = 0; k < K; k++) __builtin_memcpy(out + k * full, source + k * rowStride, full * sizeof(T));
    return;
  }
  int64_t k = 0;
  if (columns == full && width == full && rowStride == 1) {
    for (; k + lanes <= K; k += lanes) {
      for (int n = 0; n < full; n += lanes) {
        transposeBlock<T, lanes>(source + n * columnStride + k, columnStride, out + k * full + n, full, true);
      }
    }
  }
  for (; k < K; k++) {
    const T* from = source + k * rowStride;
    for (int n = 0; n < width; n++) out[k * width + n] = n < columns ? from[n * columnStride] : T(0);
  }
}

template <class T>
static int64_t leftPanelBytes(int rows, int64_t K) {
  return rows * K * static_cast<int64_t>(sizeof(T));
}

template <class T>
static int64_t rightPanelBytes(int64_t K) {
  return 2 * Lanes<T>::count * K * static_cast<int64_t>(sizeof(T));
}

template <class T>
static void packLeftPanel(int rows, int64_t K, View<T> source, void* panel) {
  packRows(rows, K, source.data, source.rowStride, source.columnStride, static_cast<T*>(panel));
}

template <class T>
static void packRightPanel(int columns, int64_t K, View<T> source, void* panel) {
  packColumns(columns, 2 * Lanes<T>::count, K, source.data, source.rowStride, source.columnStride,
              static_cast<T*>(panel));
}

template <class T>
static void tileOfPanels(int rows, int columns, int64_t K, const void* left, const void* right, T* c, int64_t ldc,
                         bool accumulate) {
  for (int r = 0; accumulate && r < rows; r++) {
    __builtin_prefetch(c + r * ldc);
    __builtin_prefetch(c + r * ldc + columns - 1);
  }
  tile(rows, columns, K, static_cast<const T*>(left), rows, static_cast<const T*>(right), 2 * Lanes<T>::count, c, ldc,
       accumulate);
}

template <class T>
static ProductKernel<T> makeProduct(const char* name) {
  return {name,
          PRIMERL_TILE_ROWS,
          2 * Lanes<T>::count,
          512,
          leftPanelBytes<T>,
          rightPanelBytes<T>,
          packLeftPanel<T>,
          packRightPanel<T>,
          tileOfPanels<T>};
}
