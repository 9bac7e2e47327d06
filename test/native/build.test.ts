import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { expect, it } from "vitest"

const script = fileURLToPath(new URL("../../native/build.mjs", import.meta.url))
const run = (args: ReadonlyArray<string>, env: NodeJS.ProcessEnv = {}) =>
  new Promise<{ readonly failed: boolean; readonly stderr: string }>((resolve) => {
    execFile(process.execPath, [script, ...args], { env: { ...process.env, ...env } }, (error, _, stderr) =>
      resolve({ failed: error !== null, stderr })
    )
  })

it("without a compiler, the build says in one line what to install", async () => {
  const { failed, stderr } = await run([], { CXX: "no-such-compiler" })
  expect(failed).toBe(true)
  expect(stderr).toMatch(/^native build: no C\+\+ compiler: "no-such-compiler" does not run; .*install.*\n$/)
})

it("an unknown argument is refused", async () => {
  expect(await run(["tset"])).toEqual({
    failed: true,
    stderr:
      'native build: unknown argument "tset"; there are "test", "sanitize", "valgrind", "bench", "cuda", "cuda-test" and "emulated-cuda"\n'
  })
})
