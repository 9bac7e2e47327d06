#include "primerl/isa.h"

#include <cstring>
#include <string>

#include "kernels.h"
#include "primerl/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace primerl {

bool supportsIsa(Isa isa) {
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx2) return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

Isa detectIsa() {
  if (supportsIsa(Isa::avx512)) return Isa::avx512;
  if (supportsIsa(Isa::avx2)) return Isa::avx2;
  return Isa::scalar;
}

const char* isaName(Isa isa) {
  switch (isa) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::scalar: break;
  }
  return "scalar";
}

Isa parseIsa(const char* name) {
  for (const Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
    if (std::strcmp(name, isaName(isa)) != 0) continue;
    if (!supportsIsa(isa)) {
      throw Error("ERR_CONFIG", std::string("This processor does not run the instruction set \"") + name +
                                    "\". Leave it out to use \"" + isaName(detectIsa()) + "\".");
    }
    return isa;
  }
  throw Error("ERR_CONFIG",
              std::string("Unknown instruction set \"") + name + "\". Use \"scalar\", \"avx2\" or \"avx512\".");
}

bool hasAmx() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const unsigned bf16 = 1u << 22, tile = 1u << 24;
  return (d & bf16) != 0 && (d & tile) != 0;
#else
  return false;
#endif
}

template <>
const Kernels<double>& kernels<double>(Isa) {
  return scalarKernelsDouble();
}

template <>
const Kernels<float>& kernels<float>(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512Kernels();
  if (isa == Isa::avx2) return avx2Kernels();
#endif
  (void)isa;
  return scalarKernels();
}

}  // namespace primerl
