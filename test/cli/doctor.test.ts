import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { text } from "../../cli/doctor.ts"
import type { Hardware } from "../../cli/Runs.ts"
import { run } from "./kit.ts"

const card: Hardware = {
  node: "v22.1.0",
  cpu: { isa: "amx", amx: true, cores: 16 },
  cuda: {
    reason: undefined,
    library: "/engine/primerl_cuda.so",
    built: true,
    driver: true,
    devices: [
      { name: "NVIDIA H100", capability: "9.0", bytes: 80 * 2 ** 30 },
      { name: "NVIDIA A100", capability: "8.0", bytes: 40 * 2 ** 30 }
    ],
    cublas: "libcublas.so.13",
    cublasVersion: 130001
  }
}

describe("primerl doctor", () => {
  it.effect("says what is missing for CUDA, why, and how to get it", () =>
    Effect.gen(function* () {
      const { out } = yield* run(["doctor"], {})
      expect(out).toBe(`node           v20.0.0
processor      avx2, 4 threads
CUDA library   not built: install the CUDA toolkit (nvcc), then run "node native/build.mjs cuda"
NVIDIA driver  none: libcuda.so.1 cannot be loaded
CUDA devices   none
cuBLAS         not looked for without a device
models run on  cpu; not on cuda: there is no NVIDIA driver (libcuda.so.1 cannot be loaded)
`)
    })
  )

  it("names every device, and what multiplies on them", () => {
    expect(text(card)).toBe(`node           v22.1.0
processor      amx, AMX tiles, 16 threads
CUDA library   /engine/primerl_cuda.so
NVIDIA driver  libcuda.so.1
CUDA devices   NVIDIA H100, compute capability 9.0, 80.0 GiB
               NVIDIA A100, compute capability 8.0, 40.0 GiB
cuBLAS         libcublas.so.13, version 130001
models run on  cpu, cuda
`)
    const own = { ...card, cuda: { ...card.cuda, cublas: "libcublas.so.13 cannot be loaded", cublasVersion: 0 } }
    expect(text(own)).toMatch(/^cuBLAS +none: libcublas\.so\.13 cannot be loaded; a kernel of our own multiplies$/m)
  })
})
