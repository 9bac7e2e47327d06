/** An agent that knows nothing of training: a coding agent as npm installs it, given a base URL and a key. */
import { execFile } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Endpoint } from "../../src/Interception.ts"
import * as Trace from "../../src/Trace.ts"
import { callText, layer, open } from "../interception/kit.ts"

const cli = join(dirname(createRequire(import.meta.url).resolve("@qwen-code/qwen-code/package.json")), "cli.js")

/** Runs it without a terminal, on a folder of its own; gives what it prints. */
const agent = (home: string, work: string, { baseUrl, model, secret }: Endpoint, prompt: string) =>
  Effect.async<string, Error>((resume) => {
    const child = execFile(
      process.execPath,
      [cli, "--auth-type", "openai", "--approval-mode", "yolo", "-p", prompt],
      {
        cwd: work,
        timeout: 110_000,
        env: {
          PATH: process.env.PATH,
          HOME: home,
          OPENAI_BASE_URL: baseUrl,
          OPENAI_API_KEY: secret,
          OPENAI_MODEL: model
        }
      },
      (error, out) => resume(error === null ? Effect.succeed(out) : Effect.fail(error))
    )
    child.stdin?.end()
    return Effect.sync(() => child.kill())
  })

describe("@qwen-code/qwen-code", () => {
  it.scoped(
    "uses its tools as the policy says, and its turns are one branch of ids",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const [home, work] = [yield* fs.makeTempDirectoryScoped(), yield* fs.makeTempDirectoryScoped()]
        mkdirSync(join(home, ".qwen"))
        // asks nobody for news and tells nobody of its use
        const settings = { general: { disableAutoUpdate: true }, privacy: { usageStatisticsEnabled: false } }
        writeFileSync(join(home, ".qwen", "settings.json"), JSON.stringify(settings))
        writeFileSync(join(work, "harbour.txt"), "three boats\n")
        const { endpoint, session } = yield* open()
        const printed = yield* agent(home, work, endpoint, `what does ${join(work, "harbour.txt")} say?`)
        expect(printed.trim()).toBe("It says: three boats")
        const { trace } = yield* session.progress
        const branches = Trace.branches(trace)
        expect(branches).toHaveLength(1)
        expect(Trace.drift(trace)).toBe(0)
        const messages = Trace.messages(trace, branches[0]!)
        expect(messages.slice(-3).map(({ role }) => role)).toEqual(["assistant", "tool", "assistant"])
        expect(messages.at(-2)!.content).toContain("three boats")
      }).pipe(
        Effect.provide(
          Layer.merge(
            NodeContext.layer,
            layer({
              maxSequenceLength: 1 << 20,
              reply: (prompt) => {
                const asked = prompt.slice(prompt.lastIndexOf("<|im_start|>user"))
                const path = /what does (.*) say\?/.exec(asked)![1]!
                return asked.includes("<|im_start|>tool")
                  ? "It says: three boats<|im_end|>"
                  : `${callText("read_file", JSON.stringify({ file_path: path, absolute_path: path }))}<|im_end|>`
              }
            })
          )
        )
      ),
    120_000
  )
})
