import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Environment from "../src/Environment.ts"
import { trainableTokens } from "../src/Rollout.ts"
import { Runtime, type RuntimeError } from "../src/Runtime.ts"
import { planned } from "../src/testing/index.ts"
import { bytes, END, layerPolicy, layerRenderer, type Request } from "./doubles/byteChat.ts"

const echo = Environment.make({ name: "echo", tasks: ["hello"], reward: () => 1 })
const run = (
  policy: Parameters<typeof layerPolicy>[0],
  environment = echo,
  options: { readonly requests?: Array<Request>; readonly cancelled?: Effect.Effect<"stale"> } = {}
) =>
  Environment.rollout(environment, planned({ example: Environment.exampleKey(environment, 0) }), {
    seed: 1,
    ...(options.cancelled === undefined ? {} : { cancelled: options.cancelled })
  }).pipe(
    Effect.provide([
      layerRenderer,
      layerPolicy(policy, options.requests === undefined ? {} : { requests: options.requests })
    ])
  )

describe("a turn", () => {
  it.effect("asks the policy to stop where the renderer's turns end", () =>
    Effect.gen(function* () {
      const requests: Array<Request> = []
      yield* run(() => "x", echo, { requests })
      expect(requests.map(({ sampling }) => [...sampling.stopTokenIds])).toEqual([[END]])
    })
  )

  it.effect("TOK-08: ids that a provider sends after the stop are dropped, with their log-probabilities", () =>
    Effect.gen(function* () {
      const ids = [...bytes("hi"), END, ...bytes("xy")]
      const generation = {
        tokenIds: Int32Array.from(ids),
        logprobs: new Float32Array(ids.length).fill(-0.5),
        finishReason: "stop" as const,
        policyVersion: 0
      }
      const ended = yield* run(() => Effect.succeed(generation))
      expect(ended._tag).toBe("Rollout")
      if (ended._tag === "Absent") return
      expect(trainableTokens(ended)).toBe(3)
      expect([...ended.trace.nodes[1]!.tokenIds].slice(-3)).toEqual([...bytes("hi"), END])
      expect(ended.stopReason).toBe("done")
    })
  )
})

describe("a runtime", () => {
  it.effect("ENV-01: a rollout that is cancelled while its runtime starts leaves no runtime behind", () =>
    Effect.gen(function* () {
      const started = yield* Deferred.make<void>()
      const log: Array<string> = []
      const box = Layer.scoped(
        Runtime,
        Effect.acquireRelease(
          Effect.sync(() => log.push("created")),
          () => Effect.sync(() => log.push("deleted"))
        ).pipe(
          Effect.zipRight(Deferred.succeed(started, undefined)),
          Effect.zipRight(Effect.never),
          Effect.as({ name: "box", alive: Effect.succeed(true) })
        )
      ) as Layer.Layer<Runtime, RuntimeError>
      const boxed = Environment.make({ name: "boxed", tasks: ["hello"], reward: () => 1, runtime: box })
      const fiber = yield* Effect.fork(
        run(() => "x", boxed, { cancelled: Effect.as(Deferred.await(started), "stale") })
      )
      const ended = yield* Fiber.join(fiber)
      expect(ended).toMatchObject({ _tag: "Absent", reason: { _tag: "Cancelled", why: "stale" } })
      expect(log).toEqual(["created", "deleted"])
    })
  )
})

describe("rewards", () => {
  const make = (reward: Environment.Options<string>["reward"]) => () =>
    Environment.make<string>({ name: "none", tasks: ["hello"], reward })

  it("ENV-08: rewards that can never be anything but 0 are refused before anything runs", () => {
    expect(make({})).toThrow()
    expect(make({ a: { score: () => 1, weight: 0 }, b: { score: () => 1, weight: 0 } })).toThrow()
  })
})
