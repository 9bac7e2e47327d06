import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Trace from "../../src/Trace.ts"
import { heldPolicy, layer, open } from "./kit.ts"

const chat = "/chat/completions"
const body = { messages: [{ role: "user", content: "hi" }] }
const counting = () => {
  const asked: Array<string> = []
  return {
    asked,
    reply: (prompt: string) => {
      asked.push(prompt)
      return `answer ${asked.length}<|im_end|>`
    }
  }
}

describe("a request that is made again", () => {
  it.scoped("gets the turn that is in the trace, streamed ones too, and nothing is sampled", () => {
    const { asked, reply } = counting()
    return Effect.gen(function* () {
      const { call, events, session } = yield* open()
      const first = yield* call(chat, body)
      const again = yield* call(chat, body, { "x-stainless-retry-count": "1" })
      expect(again.body).toEqual(first.body)
      const streamed = yield* events(chat, body)
      const restreamed = yield* events(chat, body)
      const text = (
        all: ReadonlyArray<{ readonly choices?: ReadonlyArray<{ readonly delta: { readonly content?: string } }> }>
      ) =>
        all
          .flatMap(({ choices }) => choices ?? [])
          .map(({ delta }) => delta.content ?? "")
          .join("")
      expect(text(restreamed)).toBe(text(streamed))
      expect(restreamed.at(0)).toEqual(streamed.at(0))
      expect(asked).toHaveLength(2)
      expect(Trace.turns((yield* session.progress).trace)).toBe(2)
    }).pipe(Effect.provide(layer({ reply })))
  })

  it.scoped("waits for the turn that is being sampled, and both are told all of it", () =>
    Effect.gen(function* () {
      const policy = yield* heldPolicy("answer<|im_end|>")
      yield* Effect.gen(function* () {
        const { call, session } = yield* open()
        const first = yield* Effect.fork(call(chat, body))
        yield* policy.drawn
        const second = yield* Effect.fork(call(chat, body, { "x-stainless-retry-count": "1" }))
        // the second is in when the third, which asks something else, has begun
        const third = yield* Effect.fork(call(chat, { messages: [{ role: "user", content: "other" }] }))
        yield* policy.drawn
        yield* policy.goOn
        yield* policy.goOn
        const [a, b] = yield* Effect.all([Fiber.join(first), Fiber.join(second)])
        expect(a.body.choices[0].message.content).toBe("answer")
        expect(b.body).toEqual(a.body)
        expect((yield* Fiber.join(third)).status).toBe(200)
        expect(policy.calls()).toBe(2)
        expect(Trace.turns((yield* session.progress).trace)).toBe(2)
      }).pipe(Effect.provide(policy.layer))
    })
  )

  it.scoped("is sampled anew by an agent that asks the same again and again", () => {
    const { asked, reply } = counting()
    return Effect.gen(function* () {
      const { call } = yield* open()
      const said = yield* Effect.replicateEffect(call(chat, body), 4)
      expect(said.map(({ body }) => body.choices[0].message.content)).toEqual([
        "answer 1",
        "answer 1",
        "answer 1",
        "answer 2"
      ])
      expect(asked).toHaveLength(2)
    }).pipe(Effect.provide(layer({ reply })))
  })

  it.scoped("is another when it comes from another rollout, or asks for another form", () => {
    const { asked, reply } = counting()
    return Effect.gen(function* () {
      const one = yield* open()
      const other = yield* open()
      yield* one.call(chat, body)
      yield* other.call(chat, body)
      yield* one.events(chat, body)
      expect(asked).toHaveLength(3)
      expect(Trace.turns((yield* other.session.progress).trace)).toBe(1)
    }).pipe(Effect.provide(layer({ reply })))
  })
})

describe("a client that goes away", () => {
  const cases = [
    ["in the middle of a stream", true],
    ["while it waits for the whole answer", false]
  ] as const
  for (const [when, stream] of cases) {
    it.scoped(`API-03: ${when} takes its turn along: the engine stops, and nothing is kept`, () =>
      Effect.gen(function* () {
        const policy = yield* heldPolicy("a long answer<|im_end|>")
        yield* Effect.gen(function* () {
          const { call, send, session } = yield* open()
          const client = yield* Effect.fork(
            Effect.flatMap(send(chat, { ...body, stream }), (response) =>
              Effect.promise((signal) => {
                signal.addEventListener("abort", () => response.body?.cancel())
                return response.text()
              })
            )
          )
          yield* policy.drawn
          yield* Fiber.interruptFork(client)
          expect(yield* policy.ended).toBe("interrupted")
          expect((yield* session.progress).trace.nodes).toEqual([])
          // and a retry is a turn like any other
          const retry = yield* Effect.fork(call(chat, { ...body, stream: false }))
          yield* policy.drawn
          yield* policy.goOn
          expect((yield* Fiber.join(retry)).body.choices[0].message.content).toBe("a long answer")
          expect(Trace.turns((yield* session.progress).trace)).toBe(1)
        }).pipe(Effect.provide(policy.layer))
      })
    )
  }

  it.scoped("leaves the turn to the other that asked the same", () =>
    Effect.gen(function* () {
      const policy = yield* heldPolicy("answer<|im_end|>")
      yield* Effect.gen(function* () {
        const { send, session } = yield* open()
        const streamed = { ...body, stream: true }
        const first = yield* Effect.fork(Effect.flatMap(send(chat, streamed), () => Effect.never))
        yield* policy.drawn
        // its head comes once it has joined the turn
        const second = yield* send(chat, streamed)
        yield* Fiber.interrupt(first)
        yield* policy.goOn
        expect(yield* Effect.promise(() => second.text())).toContain("[DONE]")
        expect(policy.calls()).toBe(1)
        expect(Trace.turns((yield* session.progress).trace)).toBe(1)
      }).pipe(Effect.provide(policy.layer))
    })
  )
})
