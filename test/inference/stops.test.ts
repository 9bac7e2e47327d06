import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Sampling } from "../../src/Inference.ts"
import * as Mock from "../../src/inference/Mock.ts"
import * as Native from "../../src/inference/Native.ts"
import { tinyEngine } from "../Trainer/models.ts"

const promptIds = Int32Array.of(3, 1, 4, 1, 5)
const sampling = (stopTokenIds: ReadonlyArray<number>): Sampling => ({
  temperature: 1,
  maxTokens: 40,
  stopTokenIds,
  seed: 1
})

layer(NodeFileSystem.layer)("stop tokens", (it) => {
  it.scoped("any of several ends the turn, wherever it stands in the list, and comes with it", () =>
    Effect.gen(function* () {
      const native = Native.make(yield* tinyEngine({ trainable: false }))
      const mock = yield* Mock.make({ vocabularySize: 61 })
      for (const inference of [native, mock]) {
        const { tokenIds } = yield* inference.generate(promptIds, sampling([]))
        const stop = tokenIds.find((id, i) => i > 3 && tokenIds.indexOf(id) === i)!
        const never = Array.from({ length: 61 }, (_, id) => id).filter((id) => !tokenIds.includes(id))
        for (const list of [
          [stop, never[0]!],
          [never[0]!, stop],
          [never[0]!, stop, never[1]!]
        ]) {
          const cut = yield* inference.generate(promptIds, sampling(list))
          expect(cut.finishReason).toBe("stop")
          expect([...cut.tokenIds]).toEqual([...tokenIds.subarray(0, tokenIds.indexOf(stop) + 1)])
          expect(cut.logprobs.length).toBe(cut.tokenIds.length)
        }
      }
    })
  )
})
