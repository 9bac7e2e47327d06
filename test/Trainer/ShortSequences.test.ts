import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { isas } from "../../src/Trainer/Native.ts"
import { tinyEngine } from "./models.ts"

layer(NodeFileSystem.layer)("sequences of one and two tokens", (it) => {
  it.scoped.each(isas)(
    "%s: a query with one key pulls on no query and no key, exactly: AdamW would turn rounding into whole steps",
    (isa) =>
      Effect.gen(function* () {
        const opened = yield* Effect.either(tinyEngine({ isa }))
        if (opened._tag === "Left") return
        const engine = opened.right
        const lengths = Int32Array.of(2, 1, 2, 2)
        const tokens = 7
        yield* engine.forwardBackward(
          {
            tokenIds: Int32Array.of(5, 9, 11, 23, 42, 17, 3),
            sequenceLengths: lengths,
            temperatures: new Float32Array(tokens).fill(1),
            mask: Uint8Array.of(0, 1, 0, 0, 1, 0, 1),
            logprobs: new Float32Array(tokens).fill(-3),
            advantages: new Float32Array(tokens).fill(1),
            referenceLogprobs: undefined,
            rlWeights: undefined,
            ceWeights: undefined,
            refKlWeights: undefined
          },
          { rl: 3, ce: 0, refKl: 0 },
          { kernel: "dppo", maskLow: 0.2, maskHigh: 0.2, advantageTau: 1, klTau: 1e-3 }
        )
        for (const name of ["q_proj", "k_proj", "q_norm", "k_norm"]) {
          const gradient = yield* engine.readGradient(`model.layers.0.self_attn.${name}.weight`)
          expect(Math.max(...gradient.map(Math.abs)), name).toBe(0)
        }
        const value = yield* engine.readGradient("model.layers.0.self_attn.v_proj.weight")
        expect(value.some((slope) => slope !== 0)).toBe(true)
      })
  )
})
