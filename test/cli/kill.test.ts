import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const directory = mkdtempSync(join(tmpdir(), "primerl-kill-"))
const running = new Set<ChildProcess>()
afterAll(() => {
  for (const child of running) child.kill("SIGKILL")
  rmSync(directory, { recursive: true, force: true })
})

/** Starts the command as a user would; `onRow` sees how many steps the run's metrics hold whenever something is printed. */
const primerl = (name: string, more: ReadonlyArray<string>, onPrint?: (child: ChildProcess, printed: string) => void) =>
  new Promise<{ readonly code: number | null; readonly signal: string | null; readonly printed: string }>((resolve) => {
    const sets = [
      `output_dir=${directory}`,
      `run.name=${name}`,
      "max_steps=6",
      "orchestrator.batch_size=16",
      "orchestrator.group_size=4",
      "ckpt.interval=2",
      "trainer.engine.threads=1"
    ]
    const child = spawn(
      process.execPath,
      [
        join(root, "dist/bin/primerl.mjs"),
        "train",
        "examples/reverse-text/rl.toml",
        ...sets.flatMap((set) => ["--set", set]),
        ...more
      ],
      { cwd: root, stdio: ["ignore", "pipe", "pipe"] }
    )
    running.add(child)
    let printed = ""
    const hear = (text: Buffer) => {
      printed += text.toString()
      onPrint?.(child, printed)
    }
    child.stdout.on("data", hear)
    child.stderr.on("data", hear)
    child.on("close", (code, signal) => {
      running.delete(child)
      resolve({ code, signal, printed })
    })
  })

const weights = (name: string) =>
  createHash("sha256")
    .update(readFileSync(join(directory, name, "checkpoints/step_6/model.safetensors")))
    .digest("hex")

describe("primerl train", () => {
  it("stopped by kill -9 or Ctrl-C anywhere, --resume ends with the same weights", { timeout: 120_000 }, async () => {
    const whole = await primerl("whole", [])
    expect(whole.printed.trimEnd().split("\n").at(-1)).toMatch(
      /^reward: first 5 steps 0\.\d{3}, last 5 steps 0\.\d{3}$/
    )
    expect(whole.code).toBe(0)
    for (const [name, signal, step] of [
      ["killed", "SIGKILL", 3],
      ["interrupted", "SIGINT", 5]
    ] as const) {
      const stopped = await primerl(name, [], (child, printed) => {
        if (printed.includes(`${step}/6`) && !child.killed) child.kill(signal)
      })
      if (signal === "SIGKILL") expect(stopped.signal).toBe("SIGKILL")
      else {
        expect(stopped.code).toBe(130)
        expect(stopped.printed).toMatch(/--resume/)
      }
      expect(existsSync(join(directory, name, "checkpoints/step_6"))).toBe(false)
      const resumed = await primerl(name, ["--resume"])
      expect(resumed.code).toBe(0)
      expect(weights(name)).toBe(weights("whole"))
      const last = (printed: string) => printed.trimEnd().split("\n").at(-1)
      expect(last(resumed.printed)).toBe(last(whole.printed))
    }
  })
})
