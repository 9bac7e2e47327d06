import { describe, expect, it } from "@effect/vitest"
import * as Chunk from "effect/Chunk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as FineTuning from "../src/FineTuning.ts"
import type { Message } from "../src/Message.ts"
import { Renderer, RendererError } from "../src/Renderer.ts"
import * as Mock from "../src/Trainer/Mock.ts"
import * as PackedLoss from "../src/Trainer/PackedLoss.ts"
import { layerRenderer } from "./doubles/byteChat.ts"

/** What an assistant says is what it would have sampled. */
const taught = Layer.map(layerRenderer, (context) => {
  const renderer = Context.get(context, Renderer)
  return Context.make(Renderer, {
    ...renderer,
    render: (messages) => {
      const rendered = renderer.render(messages)
      const sampled = rendered.isContent.map((is, i) =>
        is === 1 && messages[rendered.messageIndices[i]!]?.role === "assistant" ? 1 : 0
      )
      return { ...rendered, sampledMask: sampled }
    }
  })
})

const layer = (applied: boolean) =>
  Mock.layerMock({ optimizerStep: () => Effect.succeed({ gradNorm: 1, applied }) }).pipe(
    Layer.provide(PackedLoss.layerMock({ logprobs: ({ tokenIds }) => new Float32Array(tokenIds.length).fill(-1) })),
    Layer.merge(taught)
  )

const talk = (...turns: ReadonlyArray<readonly ["user" | "assistant", string]>): ReadonlyArray<Message> =>
  turns.map(([role, content]) => ({ role, content }))

describe("fine-tuning", () => {
  it.effect(
    "counts the conversations that teach nothing and those that were cut, and says when a step was skipped",
    () =>
      Effect.gen(function* () {
        const conversations = Stream.make(
          talk(["user", "a"], ["assistant", "b"]),
          talk(["user", "a"]),
          talk(["user", "a"], ["assistant", "b".repeat(200)]),
          talk(["user", "a".repeat(200)], ["assistant", "b"])
        )
        const options = { conversations, steps: 1, batchSize: 4, maxSequenceLength: 64 }
        const reports = (applied: boolean) =>
          Stream.runCollect(FineTuning.steps(options)).pipe(
            Effect.map(Chunk.toReadonlyArray),
            Effect.provide(layer(applied))
          )
        expect(yield* reports(true)).toMatchObject([{ untrained: 2, truncated: 2, optimizerApplied: true }])
        expect(yield* reports(false)).toMatchObject([{ optimizerApplied: false }])
      })
  )

  it("learns what others say with their weight, and of them the bodies alone", () => {
    const rendered = {
      tokenIds: Int32Array.of(1, 2, 3, 4, 5, 6),
      messageIndices: Int32Array.of(0, 0, 1, 1, 2, 2),
      sampledMask: Uint8Array.of(0, 0, 0, 1, 0, 0),
      isContent: Uint8Array.of(0, 1, 0, 1, 0, 1)
    }
    const weights = (of: (message: number) => number) => [...FineTuning.sample("r", rendered, of).ceWeights!]
    expect(weights(() => 0)).toEqual([0, 0, 0, 1, 0, 0])
    expect(weights((message) => (message === 2 ? 0.5 : 0))).toEqual([0, 0, 0, 1, 0, 0.5])
    expect(weights(() => 0.25)).toEqual([0, 0.25, 0, 1, 0, 0.25])
  })

  it.effect("a conversation that the chat format cannot say is an error that shows it", () => {
    const mute = Layer.map(layerRenderer, (context) => {
      const renderer = Context.get(context, Renderer)
      const render = () => {
        throw new RendererError({ renderer: "mute", reason: "there are no messages to render" })
      }
      return Context.make(Renderer, { ...renderer, render })
    })
    return Effect.gen(function* () {
      const conversations = Stream.make(talk(["user", "unsayable"]))
      const options = { conversations, steps: 1, batchSize: 1, maxSequenceLength: 64 }
      const error = yield* Effect.flip(Stream.runDrain(FineTuning.steps(options)))
      expect(error).toBeInstanceOf(FineTuning.FineTuningError)
      expect(error.message).toMatch(/no messages to render.*unsayable/)
    }).pipe(Effect.provide(mute), Effect.provide(layer(true)))
  })
})
