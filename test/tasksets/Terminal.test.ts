import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Layer from "effect/Layer"
import * as Environment from "../../src/Environment.ts"
import { Inference } from "../../src/Inference.ts"
import type { Message } from "../../src/Message.ts"
import { Renderer } from "../../src/Renderer.ts"
import type { Ended } from "../../src/Rollout.ts"
import * as Runtime from "../../src/Runtime.ts"
import * as Policy from "../../src/run/Policy.ts"
import * as Trace from "../../src/Trace.ts"
import * as Terminal from "../../src/tasksets/Terminal.ts"
import { parse } from "../../src/tasksets/terminal/commandLine.ts"
import { call, DONE, demonstration } from "../../src/tasksets/terminal/demonstrations.ts"
import * as Tasks from "../../src/tasksets/terminal/Tasks.ts"
import { planned } from "../../src/testing/index.ts"

const policy = fileURLToPath(new URL("../../examples/terminal/policy", import.meta.url))
const layerText = Layer.provide(Policy.layerText(policy), NodeContext.layer)

/** A policy that says these messages, one a turn, and goes on with the last. */
const layerScript = (turns: ReadonlyArray<Message>) =>
  Layer.effect(
    Inference,
    Effect.map(Renderer, ({ render }) => {
      let asked = 0
      return {
        name: "script",
        maxSequenceLength: 512,
        generate: () =>
          Effect.sync(() => {
            const { messageIndices, sampledMask, tokenIds } = render(
              [{ role: "user", content: "" }, turns[Math.min(asked++, turns.length - 1)]!],
              { tools: [Terminal.spec] }
            )
            const ids = tokenIds.filter((_, i) => messageIndices[i] === 1 && sampledMask[i] === 1)
            return {
              tokenIds: ids,
              logprobs: new Float32Array(ids.length).fill(-1),
              finishReason: "stop",
              policyVersion: 3
            } as const
          }),
        score: () => Effect.die("not asked"),
        adopt: () => Effect.void
      }
    })
  )

const environment = Terminal.environment({ seed: 1 })
const done: Message = { role: "assistant", content: DONE }
const play = (example: string, commands: ReadonlyArray<string>): Effect.Effect<Ended> =>
  Environment.rollout(environment, planned({ example }), { seed: 1 }).pipe(
    Effect.provide(Layer.provideMerge(layerScript([...commands.map((command) => call(command)), done]), layerText)),
    Effect.orDie
  )
const task = (index: number) => Tasks.make(1, "train", index)
const indexOf = (is: (task: Tasks.Task) => boolean) =>
  Array.from({ length: 100 }, (_, i) => i).find((i) => is(task(i)))!

/** One process for all rollouts of a test instead of one for each. */
const held = Layer.build(Terminal.layerRuntime)

describe("the terminal world", () => {
  it.scoped("is worth 1 when the folder is left as it was asked to be, and 0 otherwise", () =>
    Effect.gen(function* () {
      yield* held
      const kinds: ReadonlyArray<Tasks.Kind> = ["remove", "rename", "copy", "put"]
      for (const kind of kinds) {
        const { key, solution } = task(indexOf((one) => one.kind === kind))
        const right = yield* play(key, solution)
        expect(right).toMatchObject({
          reward: 1,
          stopReason: "done",
          metrics: { drift: 0, turns: solution.length + 1 }
        })
        expect(yield* play(key, solution.slice(0, 1))).toMatchObject({ reward: 0, stopReason: "done" })
      }
    })
  )

  it.effect("records every turn on one branch of exact ids, with what the commands said as context", () =>
    Effect.gen(function* () {
      const { key, solution } = task(indexOf(({ kind }) => kind === "rename"))
      const ended = yield* play(key, solution)
      if (ended._tag === "Absent") throw new Error(JSON.stringify(ended.reason))
      const { trace } = ended
      expect(trace.nodes.map(({ message }) => message.role)).toEqual([
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant"
      ])
      expect(Trace.branches(trace)).toHaveLength(1)
      expect(trace.calls!.map(({ bridged, opened }) => [bridged, opened])).toEqual([
        [undefined, "start"],
        [true, undefined],
        [true, undefined]
      ])
      expect(trace.calls!.map(({ versions }) => versions![0]!.version)).toEqual([3, 3, 3])
      expect(trace.nodes[2]).toMatchObject({ sampled: false })
      expect(trace.nodes[2]!.isContent.includes(1)).toBe(true)
      expect(trace.stop).toEqual({ reason: "done", by: "harness" })
    })
  )

  it.effect("stops a policy that never ends, and scores what it has left", () =>
    Effect.gen(function* () {
      const { key, solution } = task(0)
      const ended = yield* Environment.rollout(environment, planned({ example: key }), { seed: 1 }).pipe(
        Effect.provide(Layer.provideMerge(layerScript([...solution, "ls"].map((command) => call(command))), layerText)),
        Effect.orDie
      )
      expect(ended).toMatchObject({ reward: 1, stopReason: "max_turns", metrics: { turns: 6 } })
    })
  )

  it.effect("without a machine the rollout fails, and is no reward of 0", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.provide(Runtime.machine, Runtime.layerInProcess))
      expect(error.message).toContain("in-process: it runs no commands; give the environment Process.layer()")
    })
  )
})

describe("demonstrations", () => {
  it.scoped("show what the commands really say", () =>
    Effect.gen(function* () {
      yield* held
      const machines = yield* Effect.forEach(
        Array.from({ length: 24 }, (_, i) => i),
        (index) =>
          Effect.gen(function* () {
            const machine = yield* Runtime.machine
            const { before } = Tasks.make(7, "demonstration", index)
            for (const [path, text] of Object.entries(before)) {
              yield* path.endsWith("/") ? machine.makeFolder(path) : machine.write(path, text)
            }
            const told: Array<readonly [string, string]> = []
            const messages = demonstration(7, index)
            for (const [at, message] of messages.entries()) {
              if (message.role !== "assistant") continue
              for (const { arguments: text } of message.toolCalls ?? []) {
                const answer = yield* Terminal.run.run(JSON.parse(text) as { readonly command: string }, undefined)
                told.push([answer, messages[at + 1]!.content!])
              }
            }
            return told
          }).pipe(Effect.provide(Terminal.layerRuntime))
      )
      expect(machines.flat().length).toBeGreaterThan(24)
      for (const [real, shown] of machines.flat()) expect(shown).toBe(real)
    })
  )
})

describe("a command line", () => {
  const read = (line: string) => Either.getOrThrow(parse(line))
  const why = (line: string) => Either.getOrThrow(Either.flip(parse(line)))

  it("is one program with its options and names, what begins with a dash behind them a name", () => {
    expect(read("ls")).toEqual({ program: "ls", args: ["--"] })
    expect(read("rm -rf  a 'b c'")).toEqual({ program: "rm", args: ["-rf", "--", "a", "b c"] })
    expect(read('grep -rl "red; rm"')).toEqual({ program: "grep", args: ["-rl", "--", "red; rm"] })
    expect(read("echo two  words > f")).toEqual({ program: "echo", args: ["two", "words"], output: "f" })
    expect(read("echo '>' a")).toEqual({ program: "echo", args: [">", "a"], output: undefined })
  })

  it("that would leave the folder, chain or expand is refused with the reason", () => {
    for (const line of [
      "cat /etc/passwd",
      "cat ../x",
      "cp a ../../b",
      "mkdir -p a/../../b",
      "echo x > /tmp/x",
      "rm -r .."
    ]) {
      expect(why(line)).toContain("only names in this folder")
    }
    for (const line of ["ls; rm a", "cat a | grep b", "echo $HOME", "ls `pwd`", "rm *", "cat ~/x", "a && b"]) {
      expect(why(line)).toMatch(/is not understood|no such command/)
    }
    expect(why("sh -c ls")).toBe("sh: no such command; there are ls, cat, grep, mv, cp, mkdir, rm, echo")
    expect(why("ls -l")).toBe("ls: there is no option -l")
    expect(why("grep --include=x a")).toContain("there is no option --include=x")
    expect(why("cat a > b")).toBe("> comes behind echo alone")
    expect(why("cat 'a")).toBe("a quote is never closed")
    expect(why("mv a")).toBe("mv: 1 names given")
    expect(why("  ")).toBe("there is no command")
  })
})
