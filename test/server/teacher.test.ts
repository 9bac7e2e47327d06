import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Endpoint } from "../../src/Endpoints.ts"
import * as Native from "../../src/inference/Native.ts"
import * as OpenAi from "../../src/inference/OpenAi.ts"
import * as Engine from "../../src/Trainer/Engine.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { ids, policy, serve } from "./kit.ts"

layer(Layer.merge(NodeContext.layer, HuggingFace.layerFromDirectory(policy)))("a teacher that is served", (it) => {
  it.scoped("scores and samples, to the bit, as the same engine in the process does, at any temperature", () =>
    Effect.gen(function* () {
      const { url } = yield* serve({ maxSequenceLength: 64 })
      const endpoint: Endpoint = { name: "policy", base_url: [`${url}/v1`], timeout_ms: 60_000, max_retries: 0 }
      const remote = yield* OpenAi.connect(endpoint)
      const local = Native.make(yield* Engine.open(policy, { threads: 1, trainable: false }), { maxSequenceLength: 64 })
      expect(remote.maxSequenceLength).toBe(64)
      const promptIds = Int32Array.from([260, 257, 10, ...ids("all hands on deck"), 261, 10, 260, 258, 10])
      for (const temperature of [1, 0.6, 2]) {
        const sampling = { temperature, topP: 0.95, maxTokens: 64, stopTokenIds: [261], seed: 12 }
        const sampled = yield* remote.generate(promptIds, sampling)
        expect(sampled).toEqual(yield* local.generate(promptIds, sampling))
        const tape = Int32Array.from([...promptIds, ...sampled.tokenIds])
        expect(yield* remote.score(tape, temperature)).toEqual(yield* local.score(tape, temperature))
      }
      const full = Int32Array.from({ length: 64 }, (_, at) => at + 32)
      expect(yield* remote.score(full)).toEqual(yield* local.score(full))
    })
  )
})
