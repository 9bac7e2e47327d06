import { type ChildProcess, spawn } from "node:child_process"
import { createServer } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { RunsService } from "../../cli/Runs.ts"
import { run, runs } from "./kit.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const running = new Set<ChildProcess>()
afterAll(() => {
  for (const child of running) child.kill("SIGKILL")
})

/** The command as a user starts it. */
const primerl = (args: ReadonlyArray<string>, onPrint?: (child: ChildProcess, printed: string) => void) =>
  new Promise<{ readonly code: number | null; readonly out: string; readonly error: string }>((resolve) => {
    const child = spawn(process.execPath, [join(root, "dist/bin/primerl.mjs"), "serve", ...args], {
      cwd: root,
      env: { ...process.env, SERVE_TEST_KEY: "s3cret" },
      stdio: ["ignore", "pipe", "pipe"]
    })
    running.add(child)
    let out = ""
    let error = ""
    child.stdout.on("data", (text) => {
      out += text
      onPrint?.(child, out)
    })
    child.stderr.on("data", (text) => {
      error += text
    })
    child.on("close", (code) => {
      running.delete(child)
      resolve({ code, out, error })
    })
  })

const policy = "examples/reverse-text/policy"

describe("primerl serve, as a process", () => {
  it("says where it listens, answers there, and ends with Ctrl-C", async () => {
    let answer: Promise<unknown> | undefined
    const ended = await primerl(
      [policy, "--port", "0", "--threads", "1", "--name", "tiny", "--api-key-var", "SERVE_TEST_KEY"],
      (child, out) => {
        const url = /^listening on (http:\S+)/m.exec(out)?.[1]
        if (url === undefined || answer !== undefined) return
        const headers = { authorization: "Bearer s3cret" }
        answer = fetch(`${url}/v1/models`, { headers }).then((response) => response.json())
        answer.finally(() => child.kill("SIGINT"))
      }
    )
    expect(await answer).toMatchObject({ data: [{ id: "tiny" }] })
    expect(ended.code).toBe(130)
    expect(ended.out).toMatch(
      /^model: tiny \(examples\/reverse-text\/policy\), sequences of up to 512 tokens, threads 1\nadmin routes: off .*\nlistening on http:\/\/127\.0\.0\.1:\d+ \(Ctrl-C ends it\)\n$/
    )
    expect(ended.error).toBe("no longer listening\n")
  })

  it("tells in one line that the port is taken, or the model no model", async () => {
    const other = createServer()
    const port = await new Promise<number>((resolve) =>
      other.listen(0, "127.0.0.1", () => resolve((other.address() as { readonly port: number }).port))
    )
    const taken = await primerl([policy, "--port", String(port)])
    other.close()
    expect([taken.code, taken.error]).toEqual([
      1,
      `primerl: port ${port} of 127.0.0.1 is taken; choose another, or 0 for a free one\n`
    ])
    const none = await primerl(["data", "--port", "0"])
    expect(none.code).toBe(1)
    expect(none.error).toMatch(/^primerl: model data\/config\.json: .*no such file.*\n$/)
  })
})

describe("primerl serve", () => {
  it.effect("hands over what its options say", () =>
    Effect.gen(function* () {
      const seen: Array<Parameters<RunsService["serve"]>[0]> = []
      const serve: RunsService["serve"] = (options) => {
        seen.push(options)
        return Effect.zipLeft(runs.serve(options), Effect.interrupt)
      }
      yield* run(["serve", "models/a"], {}, { serve })
      process.env.SERVE_TEST_KEY = "s3cret"
      yield* run(
        [
          ...["serve", "--host=0.0.0.0", "models/a", "--port", "0", "--name", "a", "--threads", "3"],
          ...["--log-level", "debug", "--max-sequence-length", "64", "--admin-key-var", "SERVE_TEST_KEY"]
        ],
        {},
        { serve }
      )
      delete process.env.SERVE_TEST_KEY
      expect(seen[0]).toEqual({ model: "models/a", port: 8000 })
      expect({ ...seen[1], adminKey: Redacted.value(seen[1]!.adminKey!) }).toEqual({
        model: "models/a",
        host: "0.0.0.0",
        port: 0,
        name: "a",
        threads: 3,
        maxSequenceLength: 64,
        adminKey: "s3cret"
      })
    })
  )

  it.effect("a wrong call is one line", () =>
    Effect.gen(function* () {
      for (const [args, message] of [
        [[], /^primerl: serve needs a model directory, such as /],
        [["rl.toml"], /^primerl: serve takes a model directory, not a configuration \("rl\.toml"\)/],
        [["a", "b"], /^primerl: .*'b'/],
        [["a", "--port", "x"], /^primerl: --port needs a whole number, at least 0, got "x"/],
        [["a", "--port", "65536"], /^primerl: --port goes up to 65535, got "65536"/],
        [["a", "--threads", "0"], /^primerl: --threads needs a whole number, at least 1/],
        [["a", "--log-level", "debgu"], /^primerl: --log-level knows all, .*, not "debgu"; did you mean "debug"\?/],
        [["a", "--prot", "1"], /^primerl: unknown option "--prot" of serve; did you mean "--port"\?/]
      ] as const) {
        const { code, error, out, text } = yield* run(["serve", ...args], {})
        expect([code, out]).toEqual([2, ""])
        expect(error + text).toMatch(message)
      }
    })
  )

  it.effect("a key that is asked for and not set stops it: it would be open to everyone", () =>
    Effect.gen(function* () {
      for (const option of ["--api-key-var", "--admin-key-var"]) {
        const { code, text } = yield* run(["serve", "a", option, "NO_SUCH_VARIABLE_9"], {})
        expect(code).toBe(1)
        expect(text).toBe(
          `primerl: ${option}: the environment variable NO_SUCH_VARIABLE_9 is not set, or empty; it must hold the key\n`
        )
      }
    })
  )
})
