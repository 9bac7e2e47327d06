import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema, Stream } from "effect"
import Grpo from "../../src/algorithms/Grpo.ts"
import HierarchicalGrpo from "../../src/algorithms/HierarchicalGrpo.ts"
import * as Checkpoint from "../../src/Checkpoint.ts"
import { Endpoint, Endpoints } from "../../src/Endpoints.ts"
import * as Environment from "../../src/Environment.ts"
import { Inference } from "../../src/Inference.ts"
import * as Orchestrator from "../../src/Orchestrator.ts"
import * as Rollout from "../../src/Rollout.ts"
import * as Trace from "../../src/Trace.ts"
import * as Testing from "../../src/testing/index.ts"

const endpoint = (name: string) => Schema.decodeSync(Endpoint)({ name, base_url: "http://localhost:1/v1" })
const connect = (name: string) => Effect.flatMap(Endpoints, ({ connect }) => connect(endpoint(name)))

describe("teachers", () => {
  const layer = Testing.layerTeachers({
    math: { score: () => -0.5 },
    code: { reply: (prompt) => `def ${prompt}` },
    moody: { score: (ids) => (ids.length > 2 ? new Error("too long for today") : new Float32Array(ids.length)) },
    slow: { score: () => -1, scoringMs: 2000 },
    gone: { refuses: "connection refused" }
  })

  it.scoped("say what they are told to, each by its name", () =>
    Effect.gen(function* () {
      const math = yield* connect("math")
      assert.deepStrictEqual(Array.from(yield* math.score(Int32Array.of(1, 2, 3))), [0, -0.5, -0.5])
      const code = yield* connect("code")
      const said = yield* code.generate(Int32Array.from(Testing.bytes("f")), {
        temperature: 1,
        maxTokens: 20,
        stopTokenIds: [Testing.END],
        seed: 1
      })
      assert.strictEqual(Testing.textOf(said.tokenIds), "def f")
      const scored = yield* code.score(Int32Array.from([...Testing.bytes("f"), ...said.tokenIds]))
      assert.deepStrictEqual(scored.slice(1), said.logprobs)
    }).pipe(Effect.provide(layer))
  )

  it.scoped("fail as they are told to, and by name where there is none", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(connect("gone"))).message, "inference gone: connection refused")
      assert.include((yield* Effect.flip(connect("maths"))).message, "there is no such teacher; there are math, code")
      const moody = yield* connect("moody")
      yield* moody.score(Int32Array.of(1, 2))
      const error = yield* Effect.flip(moody.score(Int32Array.of(1, 2, 3)))
      assert.strictEqual(error.message, "inference moody: too long for today")
    }).pipe(Effect.provide(layer))
  )

  it.scoped("take their time by the clock", () =>
    Effect.gen(function* () {
      const { score } = yield* connect("slow")
      const fiber = yield* Effect.fork(score(Int32Array.of(1, 2)))
      yield* Testing.TestClock.adjust("1 second")
      assert.isTrue((yield* Fiber.poll(fiber))._tag === "None")
      yield* Testing.TestClock.adjust("1 second")
      assert.deepStrictEqual(Array.from(yield* Fiber.join(fiber)), [0, -1])
      assert.deepStrictEqual(Array.from(yield* Testing.during("2 seconds", score(Int32Array.of(3)))), [0])
    }).pipe(Effect.provide(layer))
  )
})

it.effect("a scripted policy drives a real environment, and fails it as a provider", () =>
  Effect.gen(function* () {
    const shout = Environment.make({
      name: "shout",
      tasks: ["ahoy", "help"],
      reward: (task, { reply }) => (reply === task.toUpperCase() ? 1 : 0)
    })
    const run = (example: string) =>
      Environment.rollout(
        shout,
        Testing.planned({ example: Environment.exampleKey(shout, example === "ahoy" ? 0 : 1) }),
        {
          seed: 0
        }
      )
    const good = yield* run("ahoy")
    assert(good._tag === "Rollout")
    assert.deepStrictEqual([good.reward, Trace.lastReply(good.trace)], [1, "AHOY"])
    const bad = yield* run("help")
    assert(bad._tag === "Absent" && bad.reason._tag === "Failed")
    assert.deepStrictEqual([bad.reason.blame, bad.reason.message], ["provider", "inference policy: busy"])
  }).pipe(
    Effect.provide(
      Layer.merge(
        Testing.layerPolicy({ reply: (prompt) => (prompt === "help" ? new Error("busy") : prompt.toUpperCase()) }),
        Testing.layerRenderer
      )
    )
  )
)

describe("the scripted environment", () => {
  const sums = Testing.environment({
    name: "sums",
    tasks: [
      { question: "1+1", answer: "2" },
      { question: "2+2", answer: "4" }
    ],
    prompt: ({ question }) => question,
    reply: ({ answer }, { sequence }) => ["look", "it says", sequence % 2 === 0 ? answer : "no idea"],
    reward: ({ answer }, reply) => (reply === answer ? 1 : 0),
    info: ({ answer }) => ({ demonstration: answer }),
    ends: (_, { sequence }) => (sequence === 3 ? { _tag: "Cancelled", why: "stale" } : undefined)
  })
  const run = (sequence: number) =>
    Environment.rollout(
      sums,
      Testing.planned({ id: `r${sequence}`, sequence, example: Environment.exampleKey(sums, 0) }),
      { seed: 0 }
    ).pipe(Effect.provide(Layer.merge(Testing.layerInference(), Testing.layerRenderer)))

  it.effect("ends by functions of the task and the plan", () =>
    Effect.gen(function* () {
      const [good, poor, gone] = [yield* run(0), yield* run(1), yield* run(3)]
      assert(good._tag === "Rollout" && poor._tag === "Rollout" && gone._tag === "Absent")
      assert.deepStrictEqual([good.reward, poor.reward, gone.reason._tag], [1, 0, "Cancelled"])
      assert.deepStrictEqual(good.info, { demonstration: "2" })
      assert.deepStrictEqual(
        good.trace.nodes.map(({ message, sampled }) => [message.role, message.content, sampled]),
        [
          ["user", "1+1", false],
          ["assistant", "look", true],
          ["tool", "it says", false],
          ["assistant", "2", true]
        ]
      )
      assert.deepStrictEqual(Rollout.stringify(good), Rollout.stringify(yield* run(0)))
    })
  )

  it.effect("trains a whole loop without weights, network or disk", () =>
    Effect.gen(function* () {
      const losses = Testing.layerPackedLoss({ logprobs: ({ logprobs }) => logprobs })
      const steps = yield* Testing.collect(
        Orchestrator.steps({
          sources: [{ environment: sums, algorithm: Grpo.layer(), groupSize: 4 }],
          steps: 2,
          batchSize: 6
        })
      ).pipe(
        Effect.provide(
          Layer.mergeAll(
            Testing.layerTrainer().pipe(Layer.provide(losses)),
            Testing.layerJournal,
            Testing.layerPermits(8),
            Checkpoint.layerNone,
            Testing.layerProvided
          )
        )
      )
      assert.deepStrictEqual(
        steps.map(({ absent, rollouts }) => [rollouts, absent]),
        [
          [7, { Cancelled: 1 }],
          [8, {}]
        ]
      )
    })
  )
})

describe("builders", () => {
  it("give traces whose streams agree, forks and tool calls included", () => {
    const traces = [
      Testing.toolUse,
      Testing.toolCall,
      Testing.forked(Testing.toolUse, 1, Testing.spoken("user", "why?"))
    ]
    for (const trace of traces) {
      const rollout = Testing.rollout({ trace })
      const again = Rollout.parse(Rollout.stringify(rollout))
      assert(again._tag === "Right")
      assert.deepStrictEqual(again.right, rollout)
    }
    assert.strictEqual(Trace.branches(traces[2]!).length, 2)
  })

  it.effect("plan episodes with several seats as one group", () =>
    Effect.gen(function* () {
      const group = Testing.episodes([
        { proposer: 1, solver: [1, 0] },
        { proposer: 0, solver: [0.5, 0.5] }
      ])
      assert.deepStrictEqual(
        group.map(({ episode, group, seat, sequence }) => [seat, episode.id, episode.size, group.size, sequence]),
        [
          ["proposer", "g0/e0", 3, 6, 0],
          ["solver", "g0/e0", 3, 6, 1],
          ["solver", "g0/e0", 3, 6, 2],
          ["proposer", "g0/e1", 3, 6, 3],
          ["solver", "g0/e1", 3, 6, 4],
          ["solver", "g0/e1", 3, 6, 5]
        ]
      )
      const layer = HierarchicalGrpo.layer({ episode_agents: ["solver"] })
      const scored = yield* Testing.score(layer, group)
      assert.deepStrictEqual(Object.values(Testing.advantages(scored)), [0.5, 0.5, -0.5, -0.5, 0, 0])
    })
  )

  it.effect("end rollouts for every reason there is, and each stays as it is", () =>
    Effect.gen(function* () {
      const at = Object.fromEntries(Testing.reasons.map((reason, i) => [i, reason]))
      const ended = Testing.without(Testing.group([...Testing.reasons.map(() => 1), 1, 0]), at)
      const outcomes = Testing.advantages(yield* Testing.score(Grpo.layer(), ended))
      assert.deepStrictEqual(
        ended.map((one) => outcomes[Rollout.plannedOf(one).id]),
        [...Testing.reasons.map(({ _tag }) => _tag), 0.5, -0.5]
      )
    })
  )
})

it.effect("the policy without a script is the same on every call", () =>
  Effect.gen(function* () {
    const sampling = { temperature: 1, maxTokens: 5, stopTokenIds: [Testing.END], seed: 3 }
    const ask = Effect.flatMap(Inference, ({ generate }) => generate(Int32Array.of(1, 2), sampling))
    const twice = yield* Stream.runCollect(Stream.mapEffect(Stream.range(1, 2), () => ask))
    const [a, b] = Array.from(twice)
    assert.deepStrictEqual(a, b)
  }).pipe(Effect.provide(Testing.layerPolicy()))
)
