/** Conditions of a task that end its rollouts, and what a trace tells of time. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as Environment from "../src/Environment.ts"
import * as ToolLoop from "../src/harnesses/ToolLoop.ts"
import * as Rollout from "../src/Rollout.ts"
import { Runtime } from "../src/Runtime.ts"
import * as Trace from "../src/Trace.ts"
import { planned } from "../src/testing/index.ts"
import { callText, layerPolicy, type Script } from "./interception/kit.ts"

const look: ToolLoop.Tool<string> = {
  spec: { name: "look", parameters: { type: "object" } },
  run: ({ at }) => Effect.as(Effect.sleep("2 seconds"), at === 2 ? "DONE" : "nothing yet")
}
const calls = (_: string, call: number) => `${callText("look", `{"at":${call + 1}}`)}<|im_end|>`

const search = (
  via: "session" | "server",
  more: Pick<Environment.Options<string>, "stops"> & Partial<Environment.Options<string>> = {}
) =>
  Environment.make<string>({
    name: "search",
    tasks: ["Find it."],
    harness: ToolLoop.make({ tools: [look], via }),
    maxTurns: 5,
    reward: () => 1,
    ...more
  } as Environment.Options<string>)

const run = (environment: Environment.Environment, script: Script = {}) =>
  Environment.rollout(environment, planned({ example: Environment.exampleKey(environment, 0) }), { seed: 1 }).pipe(
    Effect.provide(layerPolicy({ reply: calls, ...script }))
  )

/** As long as it takes: time passes whenever all that runs is asleep. */
const passing = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.fork(work)
    while (fiber.unsafePoll() === null) {
      yield* Effect.promise(() => new Promise((resume) => setImmediate(resume)))
      yield* TestClock.adjust("1 second")
    }
    return yield* Fiber.join(fiber)
  })

const isFound: Environment.StopCondition<string> = (_, { messages }) => messages.at(-1)?.content === "DONE"

describe("a condition of the task", () => {
  for (const via of ["session", "server"] as const) {
    it.effect(`ENV-04: what a tool said ends the rollout before another model call, by the ${via}`, () =>
      Effect.gen(function* () {
        const environment = search(via, { stops: { isNever: () => false, isFound } })
        const ended = yield* passing(run(environment))
        if (ended._tag === "Absent") throw new Error(Rollout.explain(ended.reason))
        expect(ended.stopReason).toBe("task")
        expect(ended.trace.stop).toEqual({ reason: "isFound", by: "task" })
        expect(Trace.calls(ended.trace)).toHaveLength(2)
        const last = ended.trace.nodes.at(-1)!
        expect(last.message).toMatchObject({ role: "tool", content: "DONE" })
        expect(last.mask.every((bit) => bit === 0)).toBe(true)
        expect(Rollout.trainableTokens(ended)).toBeGreaterThan(0)
        expect(Either.getOrThrow(Rollout.parse(Rollout.stringify(ended)))).toMatchObject({ stopReason: "task" })
      })
    )
  }

  it.effect("sees the trace, the prompt that would be asked, and the task; the first in order that holds counts", () =>
    Effect.gen(function* () {
      const seen: Array<readonly [task: string, turns: number, last: string | null]> = []
      const stops: Environment.Options<string>["stops"] = {
        watches: (task, { messages, trace }) => {
          seen.push([task, Trace.turns(trace), messages.at(-1)!.content])
          return Effect.succeed(false)
        },
        afterTwo: (_, { trace }) => Promise.resolve(Trace.turns(trace) === 2),
        afterTwoToo: (_, { trace }) => Trace.turns(trace) === 2
      }
      const ended = yield* passing(run(search("session", { stops })))
      expect(ended).toMatchObject({ trace: { stop: { reason: "afterTwo", by: "task" } } })
      expect(seen).toEqual([
        ["Find it.", 0, "Find it."],
        ["Find it.", 1, "nothing yet"],
        ["Find it.", 2, "DONE"]
      ])
    })
  )

  const broken: ReadonlyArray<readonly [what: string, condition: () => unknown, words: string]> = [
    ["throws", () => JSON.parse("{"), "stop condition isFound: SyntaxError"],
    ["gives no answer", () => "yes", `stop condition isFound: it gave yes, and no true or false`]
  ]
  for (const [what, condition, words] of broken) {
    it.effect(`that ${what} is the task's failure, and neither an end nor a turn`, () =>
      Effect.gen(function* () {
        const ended = yield* passing(run(search("server", { stops: { isFound: condition as () => boolean } })))
        expect(ended).toMatchObject({ _tag: "Absent", reason: { _tag: "Failed", blame: "task" } })
        expect(ended._tag === "Absent" && Rollout.explain(ended.reason)).toContain(words)
      })
    )
  }

  it("that is no function is told when the environment is made", () => {
    expect(() => search("session", { stops: { isFound: true as never } })).toThrow(/stop condition isFound/)
  })
})

describe("the time of a rollout", () => {
  it.effect("is told by its parts: setup, each generation with its model, each tool, scoring", () =>
    Effect.gen(function* () {
      const box = Layer.effect(
        Runtime,
        Effect.as(Effect.sleep("4 seconds"), { name: "box", alive: Effect.succeed(true) } as never)
      )
      const environment = search("session", {
        stops: { isFound },
        runtime: box,
        setup: () => Effect.sleep("1 second"),
        reward: () => Effect.as(Effect.sleep("3 seconds"), 1)
      })
      const ended = yield* passing(run(environment, { durationMs: 7_000 }))
      if (ended._tag === "Absent") throw new Error(Rollout.explain(ended.reason))
      const { spans = [] } = ended.trace
      expect(spans.map(({ endMs, name, startMs }) => [name, startMs / 1000, endMs / 1000])).toEqual([
        ["setup", 0, 5],
        ["generation", 5, 12],
        ["model", 5, 12],
        ["tools", 12, 14],
        ["generation", 14, 21],
        ["model", 14, 21],
        ["tools", 21, 23],
        ["scoring", 23, 26]
      ])
      const answers = Trace.calls(ended.trace).map(({ node }) => node)
      for (const name of ["generation", "model"]) {
        expect(spans.filter((span) => span.name === name).map(({ node }) => node)).toEqual(answers)
      }
      // A run's files repeat byte for byte; times are in none of them.
      expect(Rollout.stringify(ended)).not.toContain("spans")
      expect(Either.getOrThrow(Trace.parse(Trace.stringify(ended.trace))).trace.spans).toEqual(spans)
    })
  )

  it.effect("tells what a tool took that broke", () =>
    Effect.gen(function* () {
      const gone: Array<Trace.Trace> = []
      const harness = ToolLoop.make<string>({
        via: "session",
        tools: [{ ...look, run: () => Effect.zipRight(Effect.sleep("2 seconds"), Effect.fail("no disk")) }]
      })
      const stops: Environment.Options<string>["stops"] = {
        watches: (_, { trace }) => {
          gone.push(trace)
          return false
        }
      }
      const twice = {
        ...harness,
        run: (start: Parameters<typeof harness.run>[0]) =>
          Effect.zipRight(Effect.ignore(harness.run(start)), start.model.complete([{ role: "user", content: "Well?" }]))
      }
      yield* passing(run(search("session", { stops, harness: twice as never })))
      expect(Trace.durations(gone.at(-1)!.spans ?? [])).toMatchObject({ tools: 2_000 })
    })
  )
})
