/** `primerl doctor`: what this machine has for the engine, and why what is missing is missing. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import type { CudaFound } from "../src/Trainer/Native.ts"
import { Output } from "./Output.ts"
import { type Hardware, Runs } from "./Runs.ts"

const gibibytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`

const libraryLine = ({ built, library }: CudaFound) =>
  built ? library : `not built: install the CUDA toolkit (nvcc), then run "node native/build.mjs cuda"`

const deviceLines = ({ devices }: CudaFound) =>
  devices.length === 0
    ? ["none"]
    : devices.map(({ bytes, capability, name }) => `${name}, compute capability ${capability}, ${gibibytes(bytes)}`)

const cublasLine = ({ cublas, cublasVersion, devices }: CudaFound) => {
  if (devices.length === 0) return "not looked for without a device"
  return cublasVersion === 0 ? `none: ${cublas}; a kernel of our own multiplies` : `${cublas}, version ${cublasVersion}`
}

/** What was found, a line each. @category rendering */
export const text = ({ cpu, cuda, node }: Hardware): string => {
  const rows: Array<readonly [string, string]> = [
    ["node", node],
    ["processor", `${cpu.isa}${cpu.amx ? ", AMX tiles" : ""}, ${cpu.cores} threads`],
    ["CUDA library", libraryLine(cuda)],
    ["NVIDIA driver", cuda.driver ? "libcuda.so.1" : "none: libcuda.so.1 cannot be loaded"],
    ...deviceLines(cuda).map((line, i) => [i === 0 ? "CUDA devices" : "", line] as const),
    ["cuBLAS", cublasLine(cuda)],
    ["models run on", cuda.reason === undefined ? "cpu, cuda" : `cpu; not on cuda: ${cuda.reason}`]
  ]
  return `${rows.map(([name, value]) => `${name.padEnd(15)}${value}`).join("\n")}\n`
}

/** @category commands */
export const command = Command.make("doctor", {}, () =>
  Effect.gen(function* () {
    const { hardware } = yield* Runs
    const { write, written } = yield* Output
    yield* write(text(yield* hardware))
    yield* written
  })
).pipe(Command.withDescription("Says what this machine has for the engine, and why what is missing is missing."))
