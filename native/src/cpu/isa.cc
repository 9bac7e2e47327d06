#include "primerl/isa.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels.h"
#include "primerl/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace primerl {

namespace {

constexpr Isa allIsas[] = {Isa::scalar, Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};

#if defined(__x86_64__)
bool supportsAvx512() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq");
}

/** Linux hands out the room for tiles, 8 KiB a thread, to processes that ask for it. */
bool amxIsPermitted() {
#if defined(__linux__)
  constexpr long requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
#else
  return false;
#endif
}
#endif

}  // namespace

bool supportsIsa(Isa isa) {
  if (isa == Isa::scalar) return true;
#if defined(__x86_64__)
  switch (isa) {
    case Isa::avx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::avx512: return supportsAvx512();
    case Isa::avx512bf16: return supportsAvx512() && __builtin_cpu_supports("avx512bf16");
    case Isa::amx: return supportsAvx512() && __builtin_cpu_supports("avx512bf16") && hasAmx();
    case Isa::scalar: break;
  }
#endif
  return false;
}

Isa detectIsa() {
  const char* named = std::getenv("PRIMERL_ISA");
  if (named != nullptr && *named != '\0') return parseIsa(named);
  Isa best = Isa::scalar;
  for (const Isa isa : allIsas) {
    if (supportsIsa(isa)) best = isa;
  }
  return best;
}

const char* isaName(Isa isa) {
  switch (isa) {
    case Isa::amx: return "amx";
    case Isa::avx512bf16: return "avx512bf16";
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    case Isa::scalar: break;
  }
  return "scalar";
}

Isa parseIsa(const char* name) {
  for (const Isa isa : allIsas) {
    if (std::strcmp(name, isaName(isa)) != 0) continue;
    if (!supportsIsa(isa)) {
      throw Error("ERR_CONFIG", std::string("This processor does not run the instruction set \"") + name +
                                    "\". Name none, and the best that it has is used.");
    }
    return isa;
  }
  throw Error("ERR_CONFIG", std::string("Unknown instruction set \"") + name +
                                "\". Use \"scalar\", \"avx2\", \"avx512\", \"avx512bf16\" or \"amx\".");
}

bool hasAmx() {
#if defined(__x86_64__)
  static const bool present = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
    const unsigned bf16 = 1u << 22, tile = 1u << 24;
    return (d & bf16) != 0 && (d & tile) != 0 && amxIsPermitted();
  }();
  return present;
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
  if (isa >= Isa::avx512) return avx512Kernels();
  if (isa == Isa::avx2) return avx2Kernels();
#endif
  (void)isa;
  return scalarKernels();
}

}  // namespace primerl
