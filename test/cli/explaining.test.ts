import { fileURLToPath } from "node:url"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { explaining } from "../../cli/explaining.ts"
import { rollout } from "../../src/testing/index.ts"
import * as HuggingFace from "../../src/tokenizer/HuggingFace.ts"
import { vllm } from "../doubles/vllm.ts"

const policy = fileURLToPath(new URL("../../examples/reverse-text/policy", import.meta.url))

const distilled = (model: string | undefined, url: string) =>
  explaining({
    algorithm: { type: "opd", teacher: { name: "teacher", base_url: url, max_retries: 0 } },
    rollouts: [rollout()],
    model,
    tokenizer: undefined,
    maxSequenceLength: undefined
  }).pipe(Effect.provide(NodeContext.layer))

describe("explaining rollouts whose algorithm asks a teacher", () => {
  it.scoped("asks the teacher where it is served", () =>
    Effect.gen(function* () {
      const tokenizer = yield* Effect.provide(HuggingFace.fromDirectory(policy), NodeContext.layer)
      const { url } = yield* vllm({
        vocabularySize: tokenizer.vocabularySize,
        tokenize: (text) => Array.from(tokenizer.encode(text).ids),
        detokenize: (ids) => tokenizer.decode(ids)
      })
      const { explanation } = yield* distilled(policy, url)
      expect(explanation.rollouts[0]?.absent).toBeUndefined()
      expect(explanation.totals.refKl.tokens).toBe(2)
    })
  )

  it.scoped("says what is missing where the policy, whose ids the teacher must read, is not known", () =>
    Effect.gen(function* () {
      const { url } = yield* vllm({})
      const error = yield* Effect.flip(distilled(undefined, url))
      expect(String(error)).toMatch(/opd could not start: .*no policy is known here.*give --tokenizer DIR/)
    })
  )
})
