import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/TestClock"
import * as Environment from "../src/Environment.ts"
import * as Harness from "../src/Harness.ts"
import { InferenceError } from "../src/Inference.ts"
import { Renderer, RendererError } from "../src/Renderer.ts"
import type { Absent, Ended, Planned, Rollout } from "../src/Rollout.ts"
import { absent, trainableTokens } from "../src/Rollout.ts"
import { Runtime, RuntimeError } from "../src/Runtime.ts"
import * as Trace from "../src/Trace.ts"
import { bytes, END, layerPolicy, layerRenderer, type Request, textOf } from "./doubles/byteChat.ts"

const planned = (environment: Environment.Environment, over: Partial<Planned> = {}): Planned => ({
  id: "echo/0/0",
  sequence: 0,
  source: "echo",
  example: Environment.exampleKey(environment, 0),
  group: { id: "echo/0", size: 2 },
  episode: { id: "echo/0/0", size: 1 },
  seat: "policy",
  policyVersion: 3,
  labels: {},
  ...over
})

const run = (
  environment: Environment.Environment,
  policy: Parameters<typeof layerPolicy>[0],
  options: Partial<Environment.RolloutOptions> & {
    readonly maxSequenceLength?: number
    requests?: Array<Request>
  } = {},
  over: Partial<Planned> = {}
) => {
  const { maxSequenceLength, requests, ...given } = options
  return Environment.rollout(environment, planned(environment, over), { seed: 1, ...given }).pipe(
    Effect.provide([
      layerRenderer,
      layerPolicy(policy, {
        ...(maxSequenceLength === undefined ? {} : { maxSequenceLength }),
        ...(requests === undefined ? {} : { requests })
      })
    ])
  )
}

const rolloutOf = (ended: Ended): Rollout => {
  expect(ended._tag).toBe("Rollout")
  return ended as Rollout
}
const reasonOf = (ended: Ended): Absent["reason"] => {
  expect(ended._tag).toBe("Absent")
  return (ended as Absent).reason
}

const echo = Environment.make({ name: "echo", tasks: ["hello"], reward: (task, { reply }) => (reply === task ? 1 : 0) })

/** Asks, answers "more" and asks again, `times` times in all. */
const insisting = (times: number) =>
  Harness.make<string>({
    name: "insisting",
    run: ({ messages, model }) =>
      Effect.iterate(
        { messages, left: times },
        {
          while: ({ left }) => left > 0,
          body: ({ left, messages }) =>
            Effect.map(model.complete(messages), ({ message }) => ({
              messages: [...messages, message, { role: "user" as const, content: "more" }],
              left: left - 1
            }))
        }
      )
  })

const withHarness = (harness: Harness.Harness<string>, over: Partial<Environment.Options<string>> = {}) =>
  Environment.make<string>({
    name: "echo",
    tasks: ["hello"],
    reward: () => 1,
    harness,
    ...over
  } as Environment.Options<string>)

describe("a rollout", () => {
  it.effect("holds the ids and log-probabilities of the engine, its reward and what was planned", () =>
    Effect.gen(function* () {
      const rollout = rolloutOf(yield* run(echo, () => "hello", { sampling: { temperature: 0.7 } }))
      expect(rollout).toMatchObject({
        id: "echo/0/0",
        policyVersion: 3,
        reward: 1,
        stopReason: "done",
        temperature: 0.7
      })
      expect(rollout.rewards).toEqual({ reward: 1 })
      expect(rollout.trace.nodes.map(({ message, sampled }) => [message.role, sampled])).toEqual([
        ["user", false],
        ["assistant", true]
      ])
      const answer = rollout.trace.nodes[1]!
      expect([...answer.tokenIds]).toEqual([258, ...bytes("hello"), END])
      expect([...answer.mask]).toEqual([0, 1, 1, 1, 1, 1, 1])
      expect(answer.logprobs).toEqual(new Float32Array(6).fill(-0.5))
    })
  )

  it.effect("continues on the exact ids of the turns before", () =>
    Effect.gen(function* () {
      const requests: Array<Request> = []
      // An invalid byte: text cannot say which ids these were.
      const odd = Int32Array.of(0xff, 0x41, END)
      const generation = {
        tokenIds: odd,
        logprobs: new Float32Array(3),
        finishReason: "stop" as const,
        policyVersion: 0
      }
      const rollout = rolloutOf(yield* run(withHarness(insisting(3)), () => Effect.succeed(generation), { requests }))
      expect(Trace.branches(rollout.trace)).toHaveLength(1)
      expect(Trace.turns(rollout.trace)).toBe(3)
      const first = [257, ...bytes("hello"), END, 258]
      expect([...requests[1]!.promptIds]).toEqual([...first, ...odd, 257, ...bytes("more"), END, 258])
    })
  )

  it.effect("draws each turn's seed from run, source, example, attempt and turn, and from nothing else", () =>
    Effect.gen(function* () {
      const seeds = (options: { readonly seed?: number }, over: Partial<Planned> = {}) =>
        Effect.gen(function* () {
          const requests: Array<Request> = []
          yield* run(withHarness(insisting(2)), () => "x", { ...options, requests }, over)
          return requests.map(({ sampling }) => sampling.seed)
        })
      const base = yield* seeds({})
      expect(new Set(base).size).toBe(2)
      expect(yield* seeds({}, { id: "other", policyVersion: 9, labels: { a: "b" } })).toEqual(base)
      const others = [
        yield* seeds({ seed: 2 }),
        yield* seeds({}, { sequence: 1 }),
        yield* seeds({}, { source: "another" })
      ]
      expect(new Set([base, ...others].flat()).size).toBe(8)
      for (const seed of base) expect(seed >>> 0).toBe(seed)
    })
  )

  it.effect("stops at the most turns allowed and is scored as it stands", () =>
    Effect.gen(function* () {
      const rollout = rolloutOf(yield* run(withHarness(insisting(9)), () => "x", { maxTurns: 2 }))
      expect(rollout).toMatchObject({ stopReason: "max_turns", reward: 1 })
      expect(Trace.turns(rollout.trace)).toBe(2)
    })
  )

  it.effect("API-01: growing past the context window ends it cleanly, with the turns before trainable", () =>
    Effect.gen(function* () {
      const requests: Array<Request> = []
      const rollout = rolloutOf(yield* run(withHarness(insisting(9)), () => "xyz", { maxSequenceLength: 30, requests }))
      expect(rollout.stopReason).toBe("prompt_too_long")
      expect(requests).toHaveLength(2)
      expect(trainableTokens(rollout)).toBe(8)
    })
  )

  it.effect("API-01: a provider that calls the prompt too long stops the rollout and is asked once", () =>
    Effect.gen(function* () {
      const requests: Array<Request> = []
      const refuse = new InferenceError({ endpoint: "scripted", reason: "8195 tokens", promptTooLong: true })
      const reply = () => (requests.length < 3 ? Effect.succeed("x") : Effect.fail(refuse))
      const rollout = rolloutOf(yield* run(withHarness(insisting(9)), reply, { requests }))
      expect(rollout.stopReason).toBe("prompt_too_long")
      expect(requests).toHaveLength(3)
      expect(Trace.turns(rollout.trace)).toBe(2)
    })
  )

  it.effect("a prompt that leaves no room at all is a stop, with nothing to train", () =>
    Effect.gen(function* () {
      const rollout = rolloutOf(yield* run(echo, () => "hello", { maxSequenceLength: 8 }))
      expect(rollout).toMatchObject({ stopReason: "prompt_too_long", reward: 0 })
      expect(trainableTokens(rollout)).toBe(0)
    })
  )

  it.effect(
    "TOK-15: whether a turn was cut is the engine's finish reason, and a turn is never longer than its room",
    () =>
      Effect.gen(function* () {
        expect(rolloutOf(yield* run(echo, () => "hello")).stopReason).toBe("done")
        const cut = rolloutOf(yield* run(echo, () => "hello", { sampling: { maxTokens: 3 } }))
        expect(cut).toMatchObject({ stopReason: "length", reward: 0 })
        const full = { tokenIds: Int32Array.of(65, END), logprobs: new Float32Array(2), policyVersion: 0 }
        const said = yield* run(echo, () => Effect.succeed({ ...full, finishReason: "length" as const }))
        expect(rolloutOf(said).stopReason).toBe("length")
        const requests: Array<Request> = []
        yield* run(echo, () => "hello", { sampling: { maxTokens: 999 }, maxSequenceLength: 20, requests })
        expect(requests[0]!.sampling.maxTokens).toBe(12)
      })
  )
})

describe("blame", () => {
  const fail = (words: string) => Harness.make<string>({ name: "agent", run: () => Effect.fail(new Error(words)) })

  it.effect("a provider that fails, or whose streams contradict each other", () =>
    Effect.gen(function* () {
      const down = new InferenceError({ endpoint: "scripted", reason: "connection refused" })
      expect(reasonOf(yield* run(echo, () => Effect.fail(down)))).toMatchObject({ _tag: "Failed", blame: "provider" })
      const crooked = { tokenIds: Int32Array.of(1, 2, 3), logprobs: new Float32Array(4) }
      const generation = { ...crooked, finishReason: "stop" as const, policyVersion: 0 }
      const reason = reasonOf(yield* run(echo, () => Effect.succeed(generation)))
      expect(reason).toMatchObject({ _tag: "Failed", blame: "provider", message: expect.stringContaining("4 log") })
    })
  )

  it.effect("TOK-17: a provider that returns no token ids fails at once and is never a reward of 0", () =>
    Effect.gen(function* () {
      const nothing = { tokenIds: new Int32Array(0), logprobs: new Float32Array(0) }
      const generation = { ...nothing, finishReason: "stop" as const, policyVersion: 0 }
      const reason = reasonOf(yield* run(echo, () => Effect.succeed(generation)))
      expect(reason).toMatchObject({
        _tag: "Failed",
        blame: "provider",
        message: expect.stringContaining("no token ids")
      })
    })
  )

  it.effect("a provider's failure stays its own when the harness hides it, and is forgiven when a retry succeeds", () =>
    Effect.gen(function* () {
      const down = new InferenceError({ endpoint: "scripted", reason: "down" })
      const hiding = Harness.make<string>({
        name: "hiding",
        run: ({ messages, model }) => Effect.catchAll(model.complete(messages), () => Effect.fail("something else"))
      })
      const hidden = reasonOf(yield* run(withHarness(hiding), () => Effect.fail(down)))
      expect(hidden).toMatchObject({ blame: "provider", message: expect.stringContaining("down") })
      const retrying = Harness.make<string>({
        name: "retrying",
        run: ({ messages, model }) => Effect.retry(model.complete(messages), { times: 1 })
      })
      let calls = 0
      const ended = yield* run(withHarness(retrying), () => (calls++ === 0 ? Effect.fail(down) : Effect.succeed("x")))
      expect(rolloutOf(ended).reward).toBe(1)
    })
  )

  it.effect("a harness that fails or has a defect", () =>
    Effect.gen(function* () {
      const failed = reasonOf(yield* run(withHarness(fail("lost")), () => "x"))
      expect(failed).toEqual({ _tag: "Failed", blame: "harness", message: "agent: lost" })
      const broken = Harness.make<string>({ name: "agent", run: () => Effect.die(new Error("bug")) })
      const died = reasonOf(yield* run(withHarness(broken), () => "x"))
      expect(died).toEqual({ _tag: "Failed", blame: "harness", message: "agent: defect: bug" })
    })
  )

  it.effect("a harness that throws at once, gives no effect or interrupts itself is the harness's failure", () =>
    Effect.gen(function* () {
      const ways: ReadonlyArray<readonly [() => unknown, RegExp]> = [
        [
          () => {
            throw new Error("no plan")
          },
          /^agent: .*no plan/
        ],
        [() => undefined, /^agent: .*its run gave undefined, and no Effect/],
        [() => Effect.interrupt, /^agent: it interrupted itself/],
        [() => Effect.fail({ code: 5 }), /^agent: {"code":5}/]
      ]
      for (const [way, words] of ways) {
        const harness = Harness.make<string>({ name: "agent", run: way as () => Effect.Effect<void> })
        const reason = reasonOf(yield* run(withHarness(harness), () => "x"))
        expect(reason).toMatchObject({ _tag: "Failed", blame: "harness", message: expect.stringMatching(words) })
      }
    })
  )

  it.effect(
    "an environment of the user's own that gives no effect, or no end, fails the rollout and nothing else",
    () =>
      Effect.gen(function* () {
        const ways: ReadonlyArray<readonly [() => unknown, RegExp]> = [
          [() => undefined, /its run gave undefined, and no Effect/],
          [() => Effect.succeed({ reward: 1 }), /its run gave no rollout and no absence/],
          [
            () => Effect.succeed(absent(planned(echo, { id: "another" }), { _tag: "Cancelled", why: "stale" })),
            /its run gave rollout another, and was asked for/
          ],
          [() => Effect.interrupt, /it interrupted itself/],
          [
            () => {
              throw new Error("no tasks left")
            },
            /no tasks left/
          ]
        ]
        for (const [way, words] of ways) {
          const own = { ...echo, run: way as Environment.Environment["run"] }
          const reason = reasonOf(yield* run(own, () => "x"))
          expect(reason).toMatchObject({ _tag: "Failed", blame: "environment", message: expect.stringMatching(words) })
        }
      })
  )

  it.effect(
    "a message that the chat format cannot say is the harness's failure, not the provider's and no defect",
    () =>
      Effect.gen(function* () {
        const render = () => {
          throw new RendererError({ renderer: "byte-chat", reason: "it has no tools" })
        }
        const mute = Layer.map(layerRenderer, (context) =>
          Context.make(Renderer, { ...Context.get(context, Renderer), render })
        )
        const ended = yield* Environment.rollout(echo, planned(echo), { seed: 1 }).pipe(
          Effect.provide([mute, layerPolicy(() => "x")])
        )
        const message = "single-turn: renderer byte-chat: it has no tools"
        expect(reasonOf(ended)).toEqual({ _tag: "Failed", blame: "harness", message })
      })
  )

  it.live("a harness that goes on asking after the end leaves others their turn", () =>
    Effect.gen(function* () {
      let asked = 0
      const stubborn = Harness.make<string>({
        name: "stubborn",
        run: ({ messages, model }) =>
          Effect.forever(
            Effect.suspend(() => {
              asked++
              return Effect.ignore(model.complete(messages))
            })
          )
      })
      const ended = yield* run(withHarness(stubborn, { timeoutMs: 30 }), () => "x", { maxTurns: 1 })
      expect(rolloutOf(ended)).toMatchObject({ stopReason: "timeout" })
      expect(asked).toBeLessThan(200)
    })
  )

  it.effect("a runtime that does not start, or that dies under the harness", () =>
    Effect.gen(function* () {
      const absent = Layer.fail(new RuntimeError({ runtime: "box", reason: "no such image" }))
      const never = reasonOf(yield* run(withHarness(insisting(1), { runtime: absent }), () => "x"))
      expect(never).toMatchObject({ blame: "runtime", message: expect.stringContaining("no such image") })
      const dead = Layer.succeed(Runtime, { name: "box", alive: Effect.succeed(false) })
      const died = reasonOf(yield* run(withHarness(fail("exit code 137"), { runtime: dead }), () => "x"))
      expect(died).toMatchObject({ blame: "runtime", message: expect.stringContaining("exit code 137") })
    })
  )

  it.effect("a prompt that throws is the task's, an unknown example the environment's", () =>
    Effect.gen(function* () {
      const prompt = () => {
        throw new Error("no ticket")
      }
      const throwing = withHarness(insisting(1), { prompt })
      expect(reasonOf(yield* run(throwing, () => "x"))).toMatchObject({ blame: "task" })
      const unknown = reasonOf(yield* run(echo, () => "x", {}, { example: "train/77" }))
      expect(unknown).toMatchObject({ blame: "environment", message: expect.stringContaining('"train/77"') })
    })
  )
})

describe("scoring", () => {
  const rewarded = (reward: Environment.Options<string>["reward"], metrics?: Environment.Options<string>["metrics"]) =>
    run(Environment.make<string>({ name: "echo", tasks: ["hello"], reward, metrics }), () => "hello")

  it.effect("takes a value, a promise or an effect", () =>
    Effect.gen(function* () {
      const answers = [() => 0.5, () => Promise.resolve(0.5), () => Effect.succeed(0.5)]
      for (const reward of answers) expect(rolloutOf(yield* rewarded(reward)).reward).toBe(0.5)
    })
  )

  it.effect("ADV-06: a reward that is not finite leaves the rollout without reward, never with 0", () =>
    Effect.gen(function* () {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
        expect(reasonOf(yield* rewarded(() => value))).toEqual({ _tag: "NoReward", reward: value })
        const parts = { good: () => 1, bad: { score: () => value, weight: 2 } }
        expect(reasonOf(yield* rewarded(parts))._tag).toBe("NoReward")
      }
    })
  )

  it.effect("a reward that throws, rejects, fails, dies or is no number is the task's failure", () =>
    Effect.gen(function* () {
      const broken = [
        () => {
          throw new Error("broken")
        },
        () => Promise.reject(new Error("broken")),
        () => Effect.fail(new Error("broken")),
        () => Effect.die(new Error("broken")),
        () => Effect.interrupt,
        () => "broken" as unknown as number,
        () => undefined as unknown as number
      ]
      for (const reward of broken) {
        const reason = reasonOf(yield* rewarded(reward))
        expect(reason).toMatchObject({
          _tag: "Failed",
          blame: "task",
          message: expect.stringMatching(/^scoring: reward: /)
        })
      }
    })
  )

  it.effect("a metric that interrupts itself is left out, and nothing else", () =>
    Effect.gen(function* () {
      const rollout = rolloutOf(yield* rewarded(() => 1, { good: () => 2, bad: () => Effect.interrupt }))
      expect([rollout.reward, rollout.metrics]).toEqual([1, { drift: 0, good: 2 }])
    })
  )

  it.effect("a judge that never answers is stopped at the time limit", () =>
    Effect.gen(function* () {
      const slow = Environment.make({
        name: "echo",
        tasks: ["hello"],
        reward: () => Effect.never,
        scoringTimeoutMs: 5_000
      })
      const fiber = yield* Effect.fork(run(slow, () => "x"))
      yield* TestClock.adjust("5 seconds")
      expect(reasonOf(yield* Fiber.join(fiber))).toMatchObject({
        blame: "task",
        message: expect.stringContaining("5000")
      })
    })
  )

  it("what plain JavaScript leaves out or gets wrong is said in a sentence", () => {
    const made = (options: Record<string, unknown>) => () =>
      Environment.make({ name: "echo", tasks: ["a"], reward: () => 1, ...options } as Environment.Options<string>)
    expect(made({ reward: undefined })).toThrow("environment echo: it has no reward; give `reward`")
    expect(made({ tasks: undefined })).toThrow("environment echo: it has no tasks; give `tasks`")
    expect(made({ tasks: "a" })).toThrow("its tasks are a; they must be a list")
    expect(made({ scoringTimeoutMs: -1 })).toThrow("scoringTimeoutMs is -1")
    expect(made({ timeoutMs: "5s" })).toThrow("timeoutMs is 5s")
    expect(made({ maxTurns: 0 })).toThrow("maxTurns is 0")
  })

  it("an environment that can never run is refused when it is made", () => {
    expect(() => Environment.make({ name: "empty", tasks: [], reward: () => 1 })).toThrow(/no examples/)
    expect(() => Environment.make({ name: "silent", tasks: [{ a: 1 }], reward: () => 1 })).toThrow(/needs a prompt/)
    const weight = Number.NaN
    expect(() => Environment.make({ name: "odd", tasks: ["a"], reward: { x: { score: () => 1, weight } } })).toThrow(
      /NaN/
    )
  })
})

describe("time and cancellation", () => {
  const wait = Harness.make<string>({
    name: "waiting",
    run: ({ messages, model }) => Effect.zipRight(model.complete(messages), Effect.never)
  })

  it.effect("ENV-02: at the time limit a rollout stops with reason timeout; starting and scoring are not charged", () =>
    Effect.gen(function* () {
      const slow = Layer.effect(
        Runtime,
        Effect.as(Effect.sleep("8 seconds"), { name: "box", alive: Effect.succeed(true) })
      )
      const environment = withHarness(wait, {
        runtime: slow,
        timeoutMs: 10_000,
        reward: () => Effect.as(Effect.sleep("8 seconds"), 0.5)
      })
      const fiber = yield* Effect.fork(run(environment, () => Effect.as(Effect.sleep("3 seconds"), "x")))
      yield* TestClock.adjust("26 seconds")
      expect(rolloutOf(yield* Fiber.join(fiber))).toMatchObject({ stopReason: "timeout", reward: 0.5 })
    })
  )

  it.effect("a limit that passes before any turn is a failure: the provider's when it was asked", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(run(withHarness(wait, { timeoutMs: 1_000 }), () => Effect.never))
      yield* TestClock.adjust("1 second")
      expect(reasonOf(yield* Fiber.join(fiber))).toMatchObject({ _tag: "Failed", blame: "provider" })
    })
  )

  it.effect("a cancellation ends it with its reason and cleans up", () =>
    Effect.gen(function* () {
      const log: Array<string> = []
      const box = Layer.scoped(
        Runtime,
        Effect.acquireRelease(Effect.succeed({ name: "box", alive: Effect.succeed(true) }), () =>
          Effect.sync(() => log.push("released"))
        )
      )
      const gate = yield* Deferred.make<"stale">()
      const environment = withHarness(wait, { runtime: box })
      const fiber = yield* Effect.fork(run(environment, () => "x", { cancelled: Deferred.await(gate) }))
      yield* Effect.yieldNow()
      yield* Deferred.succeed(gate, "stale")
      expect(reasonOf(yield* Fiber.join(fiber))).toEqual({ _tag: "Cancelled", why: "stale" })
      expect(log).toEqual(["released"])
    })
  )

  it.effect("an interruption stops the work and still comes out as one end", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const ends: Array<Ended> = []
      const fiber = yield* run(withHarness(wait), () => Effect.as(Deferred.succeed(started, undefined), "x")).pipe(
        Effect.tap((ended) => Effect.sync(() => ends.push(ended))),
        Effect.uninterruptible,
        Effect.fork
      )
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      expect(ends.map(reasonOf)).toEqual([{ _tag: "Cancelled", why: "shutdown" }])
    })
  )

  it.effect("ENV-01: a runtime that cannot be cleaned up does not change what the rollout came to", () =>
    Effect.gen(function* () {
      const box = Layer.scoped(
        Runtime,
        Effect.acquireRelease(Effect.succeed({ name: "box", alive: Effect.succeed(true) }), () =>
          Effect.die(new Error("delete failed"))
        )
      )
      const ended = yield* run(withHarness(insisting(1), { runtime: box }), () => "x")
      expect(rolloutOf(ended).reward).toBe(1)
    })
  )
})

describe("the program on the first screen", () => {
  it.effect("tasks alone fix the type of what the callbacks are given", () =>
    Effect.gen(function* () {
      const refunds = Environment.make({
        name: "refunds",
        tasks: [
          { ticket: "Order 17 arrived broken.", decision: "refund" },
          { ticket: "I changed my mind after 90 days.", decision: "decline" }
        ],
        prompt: (task) => task.ticket,
        reward: (task, { reply }) => (reply.includes(task.decision) ? 1 : 0),
        metrics: { words: (_, { reply }) => reply.split(" ").length }
      })
      const policy = ({ promptIds }: Request) =>
        textOf(promptIds).includes("broken") ? "I refund it" : "I refund it too"
      const rewards = yield* Effect.forEach([0, 1, 2], (index) =>
        run(refunds, policy, {}, { example: Environment.exampleKey(refunds, index) })
      )
      expect(rewards.map((ended) => rolloutOf(ended).reward)).toEqual([1, 0, 1])
      const words = rewards.map((ended) => rolloutOf(ended).metrics.words)
      expect(words).toEqual([3, 4, 3])
    })
  )
})
