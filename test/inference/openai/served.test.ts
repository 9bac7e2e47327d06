/** The engine behind `primerl serve` gives over the wire what it gives in the process. */
import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Endpoints from "../../../src/Endpoints.ts"
import * as Native from "../../../src/inference/Native.ts"
import * as OpenAi from "../../../src/inference/OpenAi.ts"
import * as Serve from "../../../src/server/Serve.ts"
import * as Engine from "../../../src/Trainer/Engine.ts"
import * as HuggingFace from "../../../src/tokenizer/HuggingFace.ts"

const directory = fileURLToPath(new URL("../../../examples/reverse-text/policy", import.meta.url))

it.scoped(
  "a served policy is a frozen model of its own tokenizer, the same as in the process at every temperature",
  () =>
    Effect.gen(function* () {
      const { name, url } = yield* Serve.start({ model: directory, port: 0, threads: 1 })
      const inProcess = Native.make(yield* Engine.open(directory, { threads: 1, trainable: false }))
      const { connect } = yield* Endpoints.Endpoints
      const said: Array<unknown> = []
      const model = yield* connect(Schema.decodeUnknownSync(Endpoints.Endpoint)({ name, base_url: `${url}/v1` })).pipe(
        Effect.provide(
          Logger.replace(
            Logger.defaultLogger,
            Logger.make(({ message }) => void said.push(message))
          )
        )
      )
      expect(said).toEqual([])
      expect(model.maxSequenceLength).toBe(inProcess.maxSequenceLength)
      const promptIds = Int32Array.of(260, 117, 115, 101, 114, 261)
      for (const temperature of [0.6, 1]) {
        const sampling = { temperature, maxTokens: 12, stopTokenIds: [261], seed: 7 }
        const made = yield* model.generate(promptIds, sampling)
        const own = yield* inProcess.generate(promptIds, sampling)
        expect([...made.tokenIds]).toEqual([...own.tokenIds])
        expect(made.finishReason).toBe(own.finishReason)
        const all = Int32Array.from([...promptIds, ...made.tokenIds])
        const scored = yield* model.score(all, temperature)
        const ownScore = yield* inProcess.score(all, temperature)
        for (const [i, logprob] of scored.entries()) expect(logprob).toBeCloseTo(ownScore[i]!, 5)
        for (const [i, logprob] of made.logprobs.entries()) {
          expect(logprob).toBeCloseTo(own.logprobs[i]!, 5)
          expect(Math.abs(scored[promptIds.length + i]! - logprob)).toBeLessThan(1e-4)
        }
      }
    }).pipe(
      Effect.provide(Layer.provideMerge(OpenAi.layer(), HuggingFace.layerFromDirectory(directory))),
      Effect.provide(NodeContext.layer)
    )
)
