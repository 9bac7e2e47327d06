import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Environment from "../../src/Environment.ts"
import type { Endpoint } from "../../src/Interception.ts"
import * as Trace from "../../src/Trace.ts"
import { planned } from "../../src/testing/index.ts"
import { layerPolicy, type Script } from "./kit.ts"

interface Task {
  readonly question: string
  readonly answer: string
}
const tasks: ReadonlyArray<Task> = [{ question: "hi", answer: "fine" }]

const ask = async ({ baseUrl, secret }: Endpoint, content: string) => {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${secret}` },
    body: JSON.stringify({ messages: [{ role: "user", content }] })
  })
  if (response.status !== 200) throw new Error(`${response.status}`)
  const body = (await response.json()) as {
    readonly choices: ReadonlyArray<{ readonly message: { readonly content: string } }>
  }
  return body.choices[0]!.message.content
}

const run = (options: Partial<Environment.Options<Task>>, script: Script = { reply: () => "fine<|im_end|>" }) => {
  const environment = Environment.make<Task>({
    name: "agents",
    tasks,
    reward: (task, { reply }) => (reply === task.answer ? 1 : 0),
    ...options
  } as Environment.Options<Task>)
  return Environment.rollout(environment, planned({ example: Environment.exampleKey(environment, 0) }), {
    seed: 1
  }).pipe(Effect.provide(layerPolicy(script)))
}

describe("an agent of one's own as the harness", () => {
  it.effect("is given the task, a base URL and a key, and its turns are the rollout", () =>
    Effect.gen(function* () {
      const ended = yield* run({ harness: (task, endpoint) => ask(endpoint, task.question) })
      expect(ended).toMatchObject({ _tag: "Rollout", reward: 1, stopReason: "done", metrics: { drift: 0 } })
      if (ended._tag === "Rollout") expect(Trace.turns(ended.trace)).toBe(1)
    })
  )

  it.effect("may return an effect, and is cut at a limit without being blamed for it", () =>
    Effect.gen(function* () {
      const twice = (task: Task, endpoint: Endpoint) =>
        Effect.promise(async () => {
          await ask(endpoint, task.question)
          await ask(endpoint, "and again")
        })
      const ended = yield* run({ harness: twice, maxTurns: 1 })
      expect(ended).toMatchObject({ _tag: "Rollout", reward: 1, stopReason: "max_turns" })
    })
  )

  it.effect("that throws is to blame", () =>
    Effect.gen(function* () {
      const ended = yield* run({
        harness: () => {
          throw new Error("lost its way")
        }
      })
      expect(ended).toMatchObject({ _tag: "Absent", reason: { blame: "harness" } })
      expect(JSON.stringify(ended)).toContain("lost its way")
    })
  )

  it.effect("cannot reach its rollout once that has ended", () =>
    Effect.gen(function* () {
      let kept: Endpoint | undefined
      yield* run({
        harness: (_, endpoint) => {
          kept = endpoint
        }
      })
      // nobody listens there any more
      const after = yield* Effect.either(Effect.tryPromise(() => ask(kept!, "hi")))
      expect(after._tag).toBe("Left")
    })
  )
})
