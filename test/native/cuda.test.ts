/** The engine over CUDA, on a device that the host emulates: everything but the device's own driver is what ships. */
import { execFile } from "node:child_process"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { type Check, passes } from "../../src/conformance/Check.ts"
import type { CudaFound, NativeAddon } from "../../src/Trainer/Native.ts"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))
const run = promisify(execFile)
const emulated = path("../../native/build/primerl_cuda_emulated.so")

interface Trained {
  readonly applied: boolean
  readonly cuda: CudaFound
  readonly norm: ReadonlyArray<number>
  readonly logprobs: ReadonlyArray<number>
  readonly sameAfterAdoption: boolean
}

describe("the engine over CUDA", () => {
  it("passes the recorded cases, and its weights reach every reader, on the emulated device", {
    timeout: 300_000
  }, async () => {
    await run(process.execPath, [path("../../native/build.mjs"), "emulated-cuda"])
    const { stdout } = await run(process.execPath, ["--import", "jiti/register", path("emulatedCuda.ts")], {
      env: { ...process.env, PRIMERL_CUDA_LIBRARY: emulated },
      maxBuffer: 1 << 24
    })
    const { checks, cpu, cuda, refused, withoutAdapter } = JSON.parse(stdout) as {
      readonly checks: ReadonlyArray<Check>
      readonly cpu: Trained
      readonly cuda: Trained
      readonly refused: string
      readonly withoutAdapter: string
    }
    expect(checks.length).toBeGreaterThan(20)
    expect(checks.filter((check) => !passes(check))).toEqual([])
    expect(cuda.cuda).toMatchObject({ built: true, devices: [{ name: "emulated device", capability: "9.0" }] })
    expect(cuda.cuda.reason).toBeUndefined()
    expect([cuda.applied, cuda.sameAfterAdoption, cpu.sameAfterAdoption]).toEqual([true, true, true])
    for (const [i, value] of cuda.norm.entries()) expect(value).toBeCloseTo(cpu.norm[i]!, 5)
    for (const [i, value] of cuda.logprobs.entries()) expect(value).toBeCloseTo(cpu.logprobs[i]!, 1)
    expect(refused).toMatch(/float32 or of bfloat16/)
    expect(withoutAdapter).toMatch(/LoRA on CUDA is not there yet/)
  })

  it("without a device, an engine says why it cannot be opened there", () => {
    const addon = createRequire(import.meta.url)(path("../../native/build/primerl.node")) as NativeAddon
    const found = addon.cuda()
    expect(found.library).toMatch(/primerl_cuda\.so$/)
    if (found.reason === undefined) return
    expect(found.devices).toEqual([])
    expect(found.reason).toMatch(/driver|library|device/)
  })
})
