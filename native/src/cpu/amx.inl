// bfloat16 in the tiles of AMX: 16 rows of 32 numbers each. A product of 32 rows and 32 columns takes eight of them: four
// for sums, two for the left operand, two for the right one, whose rows hold pairs of neighbours in K for 16 columns.
// The including file says what the tile instructions are, so that a plain form of them runs this file everywhere.

static constexpr int tileSide = 16, tileDepth = 32, tileElements = tileSide * tileDepth;

static int64_t steps(int64_t K) { return (K + tileDepth - 1) / tileDepth; }

/** Both operands: for each step of K two tiles. */
static int64_t panelBytes(int64_t K) { return steps(K) * 2 * tileElements * static_cast<int64_t>(sizeof(uint16_t)); }

static int64_t leftBytes(int, int64_t K) { return panelBytes(K); }

/** To the nearest bfloat16, ties to even; NaN stays NaN. */
static uint16_t toBfloat16(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static void packLeft(int rows, int64_t K, View<float> source, void* panel) {
  uint16_t* out = static_cast<uint16_t*>(panel);
  for (int64_t step = 0; step < steps(K); step++) {
    for (int r = 0; r < 2 * tileSide; r++) {
      for (int i = 0; i < tileDepth; i++) {
        const int64_t k = step * tileDepth + i;
        const bool inside = r < rows && k < K;
        *out++ = inside ? toBfloat16(source.data[r * source.rowStride + k * source.columnStride]) : 0;
      }
    }
  }
}

static void packRight(int columns, int64_t K, View<float> source, void* panel) {
  uint16_t* out = static_cast<uint16_t*>(panel);
  for (int64_t step = 0; step < steps(K); step++) {
    for (int half = 0; half < 2; half++) {
      for (int i = 0; i < tileDepth; i += 2) {
        for (int n = half * tileSide; n < (half + 1) * tileSide; n++) {
          for (int64_t k = step * tileDepth + i; k < step * tileDepth + i + 2; k++) {
            const bool inside = n < columns && k < K;
            *out++ = inside ? toBfloat16(source.data[k * source.rowStride + n * source.columnStride]) : 0;
          }
        }
      }
    }
  }
}

static void tile(int rows, int columns, int64_t K, const void* left, const void* right, float* c, int64_t ldc,
                 bool accumulate) {
  constexpr int rowBytes = 64;
  PRIMERL_TILE_BEGIN();
  PRIMERL_TILE_ZERO(0);
  PRIMERL_TILE_ZERO(1);
  PRIMERL_TILE_ZERO(2);
  PRIMERL_TILE_ZERO(3);
  const uint16_t* a = static_cast<const uint16_t*>(left);
  const uint16_t* b = static_cast<const uint16_t*>(right);
  for (int64_t step = 0; step < steps(K); step++) {
    PRIMERL_TILE_LOAD(4, a, rowBytes);
    PRIMERL_TILE_LOAD(5, a + tileElements, rowBytes);
    PRIMERL_TILE_LOAD(6, b, rowBytes);
    PRIMERL_TILE_LOAD(7, b + tileElements, rowBytes);
    PRIMERL_TILE_MULTIPLY(0, 4, 6);
    PRIMERL_TILE_MULTIPLY(1, 4, 7);
    PRIMERL_TILE_MULTIPLY(2, 5, 6);
    PRIMERL_TILE_MULTIPLY(3, 5, 7);
    a += 2 * tileElements;
    b += 2 * tileElements;
  }
  alignas(64) float sums[2 * tileSide][2 * tileSide];
  constexpr int sumBytes = sizeof sums[0];
  PRIMERL_TILE_STORE(0, &sums[0][0], sumBytes);
  PRIMERL_TILE_STORE(1, &sums[0][tileSide], sumBytes);
  PRIMERL_TILE_STORE(2, &sums[tileSide][0], sumBytes);
  PRIMERL_TILE_STORE(3, &sums[tileSide][tileSide], sumBytes);
  PRIMERL_TILE_END();
  for (int r = 0; r < rows; r++) {
    float* out = c + r * ldc;
    for (int n = 0; n < columns; n++) out[n] = accumulate ? out[n] + sums[r][n] : sums[r][n];
  }
}

static ProductKernel<float> makeKernel(const char* name) {
  return {name, 2 * tileSide, 2 * tileSide, 512, leftBytes, panelBytes, packLeft, packRight, tile};
}
