// Products of float32 numbers that are rounded to bfloat16 as they are packed, where no instruction multiplies bfloat16.

/** To the nearest bfloat16, ties to even; NaN stays NaN. */
static inline V<float> roundToBfloat16(V<float> x) {
  using Bits = Lanes<float>::Bits;
  const Bits bits = (Bits)x;
  const Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & ~0xffff;
  return x == x ? (V<float>)rounded : x;
}

static void roundAll(int64_t count, float* values) {
  constexpr int lanes = Lanes<float>::count;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store(values + i, roundToBfloat16(load(values + i)));
  if (i < count) storePart(values + i, count - i, roundToBfloat16(loadPart(values + i, count - i, 0.0f)));
}

static void packLeftRounded(int rows, int64_t K, View<float> source, void* panel) {
  packLeftPanel<float>(rows, K, source, panel);
  roundAll(rows * K, static_cast<float*>(panel));
}

static void packRightRounded(int columns, int64_t K, View<float> source, void* panel) {
  packRightPanel<float>(columns, K, source, panel);
  roundAll(2 * Lanes<float>::count * K, static_cast<float*>(panel));
}

static ProductKernel<float> makeRoundedProduct(const char* name) {
  ProductKernel<float> kernel = makeProduct<float>(name);
  kernel.packLeft = packLeftRounded;
  kernel.packRight = packRightRounded;
  return kernel;
}
