// The instruction set is chosen once, at run time; for one instruction set results are the same bits on every machine.
#pragma once

namespace primerl {

/** In rising order. The last two are AVX-512 with instructions that multiply bfloat16: pairs of numbers, or tiles. */
enum class Isa { scalar, avx2, avx512, avx512bf16, amx };

/** The best that this processor runs; the environment variable PRIMERL_ISA names another one. Throws as `parseIsa`. */
Isa detectIsa();

/** Whether this processor runs it; scalar runs everywhere. */
bool supportsIsa(Isa isa);

/** "scalar", "avx2", "avx512", "avx512bf16" or "amx". */
const char* isaName(Isa isa);

/** Throws ERR_CONFIG when the name is unknown or this processor does not run it. */
Isa parseIsa(const char* name);

/** Whether the processor has AMX tiles for bfloat16 and the system lets this process use them. */
bool hasAmx();

}  // namespace primerl
