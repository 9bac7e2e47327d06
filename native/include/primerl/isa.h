// The instruction set is chosen once, at run time; for one instruction set results are the same bits on every machine.
#pragma once

namespace primerl {

enum class Isa { scalar, avx2, avx512 };

/** The best that this processor runs. */
Isa detectIsa();

/** Whether this processor runs it; scalar runs everywhere. */
bool supportsIsa(Isa isa);

/** "scalar", "avx2" or "avx512". */
const char* isaName(Isa isa);

/** Throws ERR_CONFIG when the name is unknown or this processor does not run it. */
Isa parseIsa(const char* name);

/** Whether the processor has AMX tiles for bfloat16; told for information, the core does not use them. */
bool hasAmx();

}  // namespace primerl
