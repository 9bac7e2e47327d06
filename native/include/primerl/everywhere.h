// Marks functions that are the same for the processor and for CUDA devices.
#pragma once

#if defined(__CUDACC__)
#define PRIMERL_EVERYWHERE __host__ __device__
#else
#define PRIMERL_EVERYWHERE
#endif
