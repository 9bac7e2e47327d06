#include "random.h"

#include <cmath>

// A fused multiply-add rounds once where two operations round twice: results would depend on the instruction set.
#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

namespace primerl {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kHalfPi = 1.57079632679489661923;

// Natural logarithm for 0 < x <= 1: the exponent apart, then 2·atanh((m − 1)/(m + 1)) as a series.
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752440) {
    m *= 2;
    exponent -= 1;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * kLn2 + 2 * s * sum;
}

// Sine and cosine of 2·pi·turn, 0 <= turn < 1: Taylor series within a quarter turn.
void sineCosine(double turn, double& sine, double& cosine) {
  const double quarters = turn * 4;
  const int quadrant = static_cast<int>(quarters);
  const double a = (quarters - quadrant) * kHalfPi;
  const double a2 = a * a;
  double c = 1, s = 1;
  for (int j = 12; j >= 1; --j) {
    c = 1 - c * a2 / ((2 * j - 1) * (2 * j));
    s = 1 - s * a2 / ((2 * j) * (2 * j + 1));
  }
  s *= a;
  switch (quadrant & 3) {
    case 0: sine = s; cosine = c; break;
    case 1: sine = c; cosine = -s; break;
    case 2: sine = -s; cosine = -c; break;
    default: sine = -c; cosine = s; break;
  }
}

}  // namespace

void normalPair(uint64_t seed, uint64_t stream, uint64_t pair, double out[2]) {
  const double radius = static_cast<double>((randomBits(seed, stream, 2 * pair) >> 11) + 1) * 0x1.0p-53;
  double sine = 0, cosine = 0;
  sineCosine(uniform(seed, stream, 2 * pair + 1), sine, cosine);
  const double r = std::sqrt(-2 * logarithm(radius));
  out[0] = r * cosine;
  out[1] = r * sine;
}

}  // namespace primerl
