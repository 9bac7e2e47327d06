// Checks and times the CUDA engine on this machine's device, in one call: what is found, every kernel and whole models
// against the processor in double, the recorded cases in both precisions, then the time of training steps.
// Ends with 1 when a check fails, with 2 when there is no device to check.
import { spawnSync } from "node:child_process"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

const call = (title, command, args) => {
  process.stdout.write(`\n== ${title}\n`)
  return spawnSync(command, args, { cwd: root, stdio: "inherit", shell: process.platform === "win32" }).status === 0
}
const node = (title, ...args) => call(title, process.execPath, args)

if (!node("build", "native/build.mjs", "cuda")) process.exit(1)
node("what is here", "dist/bin/primerl.mjs", "doctor")
const { reason } = createRequire(import.meta.url)("../native/build/primerl.node").cuda()
if (reason !== undefined) {
  process.stderr.write(`\nno device to check: ${reason}\n`)
  process.exit(2)
}

const cases = "test/data/cases"
const failed = [
  ["kernels and models", () => node("kernels and models", "native/build.mjs", "cuda-test")],
  ...["float32", "bfloat16"].map((dtype) => [
    `recorded cases in ${dtype}`,
    () => node(`recorded cases in ${dtype}`, "dist/bin/conformance.mjs", cases, "--device", "cuda", "--dtype", dtype)
  ])
].flatMap(([name, check]) => (check() ? [] : [name]))
call("time", "npm", ["run", "--silent", "bench:cuda"])
process.stdout.write(failed.length === 0 ? "\nall checks passed\n" : `\nfailed: ${failed.join(", ")}\n`)
process.exit(failed.length === 0 ? 0 : 1)
