/** Whatever is said and sampled, in every format: the ids along a branch are those that the engine saw. */
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import type { Message } from "../../src/Message.ts"
import { Renderer } from "../../src/Renderer.ts"
import * as Default from "../../src/renderers/Default.ts"
import * as Session from "../../src/Session.ts"
import * as Trace from "../../src/Trace.ts"
import { layerPolicy } from "../doubles/byteChat.ts"
import { tokenizerConfig } from "../tokenizer/qwen3.ts"
import { type Family, families, idsOf } from "./families.ts"

const tools = [{ name: "search", parameters: { type: "object", properties: { query: { type: "string" } } } }]

/** A model's own template, beside the formats that are written by hand. */
const qwen3 = families.find(({ title }) => title === "qwen3 {}")!
const source = { template: tokenizerConfig.chat_template, eosToken: "<|im_end|>", stopTokens: ["<|endoftext|>"] }
const byTemplate: Family = {
  ...qwen3,
  title: "default",
  renderer: Either.getOrThrow(Default.make(qwen3.tokenizer, source))
}

/** What happens next in a rollout: how the prompt is made of what was said before, and what the policy samples. */
const stepsOf = (family: Family) => {
  const text = FastCheck.constantFrom("hi", "é😀", "check.", "a\n\nb", ...family.specials)
  const piece = FastCheck.oneof(
    text.map((one) => [...family.tokenizer.encode(one).ids]),
    FastCheck.constantFrom(...family.specials).map((one) => [...idsOf(family, one)]),
    FastCheck.constant([...idsOf(family, family.call("search", '{"query": "007"}'))]),
    // a byte of a character, and a pair that the tokenizer would have merged
    FastCheck.constant([family.tokenizer.encode("é").ids[0]!]),
    FastCheck.constant([family.tokenizer.encode("h").ids[0]!, family.tokenizer.encode("i").ids[0]!])
  )
  return FastCheck.array(
    FastCheck.record({
      move: FastCheck.constantFrom("go on", "go on", "go on", "fork", "retry", "compact", "sub-agent", "earlier"),
      said: text,
      pieces: FastCheck.array(piece, { minLength: 1, maxLength: 4 }),
      closes: FastCheck.boolean()
    }),
    { minLength: 1, maxLength: 7 }
  )
}

const titled = [...families, byTemplate].map((family) => [family.title, family] as const)

describe.each(titled)("a trace in %s", (_, family) => {
  const { renderer } = family
  it("holds along every branch the exact ids that were asked and sampled, and trains the sampled ones alone", () =>
    FastCheck.assert(
      FastCheck.asyncProperty(stepsOf(family), async (steps) => {
        let next: Int32Array = new Int32Array()
        let prompt: Int32Array = new Int32Array()
        const policy = layerPolicy(({ promptIds }) => {
          prompt = promptIds
          const logprobs = new Float32Array(next.length).fill(-0.5)
          return Effect.succeed({ tokenIds: next, logprobs, finishReason: "stop", policyVersion: 0 })
        })
        /** for each answer of the trace what the engine was asked and what it sampled */
        const seen: Array<{ readonly prompt: Int32Array; readonly completion: Int32Array }> = []
        const trace = await Effect.gen(function* () {
          const session = yield* Session.make({ sampling: {}, seedOf: (turn) => turn })
          let messages: ReadonlyArray<Message> = [{ role: "user", content: "hello" }]
          const pasts: Array<ReadonlyArray<Message>> = [messages]
          for (const { closes, move, pieces, said } of steps) {
            const asked: Message = { role: "user", content: said }
            if (move === "sub-agent") messages = [{ role: "system", content: said }, asked]
            else if (move === "compact") messages = [...messages.slice(0, 1), asked]
            else if (move === "fork") messages = [...pasts[pasts.length >> 1]!, asked]
            else if (move === "earlier") messages = pasts[pasts.length >> 1]!
            else if (move === "retry") messages = messages.slice(0, Math.max(1, messages.length - 1))
            else if (move === "go on" && messages.at(-1)!.role === "assistant") {
              const calls = (messages.at(-1) as { toolCalls?: ReadonlyArray<{ id: string; name: string }> }).toolCalls
              const results = (calls ?? []).map(
                ({ id, name }): Message => ({ role: "tool", toolCallId: id, name, content: said })
              )
              messages = [...messages, ...(results.length > 0 ? results : [asked])]
            }
            const ids = [...pieces.flat(), ...(closes ? idsOf(family, family.close) : [])]
            const end = ids.findIndex((id) => renderer.stopTokenIds.includes(id))
            next = Int32Array.from(end === -1 ? ids : ids.slice(0, end + 1))
            const turn = yield* Effect.either(session.model.complete(messages, { tools }))
            if (Either.isLeft(turn)) {
              // what a format has no place for is refused before the policy is asked
              expect(turn.left._tag).toBe("RendererError")
              messages = pasts[0]!
              continue
            }
            seen.push({ prompt, completion: next })
            messages = [...messages, turn.right.message]
            pasts.push(messages)
          }
          return (yield* session.progress).trace
        }).pipe(Effect.provide(policy), Effect.provideService(Renderer, renderer), Effect.runPromise)

        const calls = Trace.calls(trace)
        expect(calls.length).toBe(seen.length)
        // a prompt that was made by extending a turn repeats the turn as it was sampled
        for (const { bridged, opened } of calls) if (bridged === true) expect(opened).not.toBe("tokens")
        const callOf = new Map(calls.map(({ node }, index) => [node, seen[index]!]))
        for (const branch of Trace.branches(trace)) {
          const ids = [...Trace.tokenIds(trace, branch)]
          const mask = branch.path.flatMap((node) => [...trace.nodes[node]!.mask])
          const expected = ids.map(() => 0)
          for (const node of branch.path) {
            const call = callOf.get(node)
            expect(trace.nodes[node]!.sampled).toBe(call !== undefined)
            if (call === undefined) continue
            const whole = [...call.prompt, ...call.completion]
            expect(ids.slice(0, whole.length)).toEqual(whole)
            expected.fill(1, call.prompt.length, whole.length)
          }
          const last = callOf.get(branch.path.at(-1)!)
          if (last !== undefined) expect(ids.length).toBe(last.prompt.length + last.completion.length)
          expect(mask).toEqual(expected)
        }
      }),
      { numRuns: 10, seed: 7 }
    ))
})
