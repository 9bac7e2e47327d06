/** Sampled ids to what a client reads, as they arrive: plain text, or a chat turn with reasoning and tool calls. */
import type * as Effect from "effect/Effect"
import type { ParsedToolCall } from "../Renderer.ts"
import type * as Resolve from "../renderers/Resolve.ts"
import type { TokenizerService } from "../Tokenizer.ts"

/** A chat format that reads a turn a token at a time. @category model */
export type ChatRenderer = Effect.Effect.Success<ReturnType<typeof Resolve.fromDirectory>>

/** What came to be known by one token. @category model */
export type Delta =
  | { readonly type: "content" | "reasoning"; readonly text: string }
  /** all content so far was reasoning, and follows as such */
  | { readonly type: "contentRevoked" }
  | { readonly type: "toolCall"; readonly call: ParsedToolCall }

/** @category model */
export interface Reader {
  readonly push: (id: number) => ReadonlyArray<Delta>
  readonly finish: () => ReadonlyArray<Delta>
}

const content = (text: string): ReadonlyArray<Delta> => (text === "" ? [] : [{ type: "content", text }])

/** Text in whole characters; ids that the tokenizer's file calls special are left out unless they are asked for. @category constructors */
export const plain = (tokenizer: TokenizerService, options: { readonly skipSpecialTokens: boolean }): Reader => {
  const decoder = tokenizer.decoder()
  const isSkipped = (id: number) =>
    options.skipSpecialTokens && tokenizer.isSpecial(id) && tokenizer.decode([id], { skipSpecialTokens: true }) === ""
  return {
    push: (id) => (isSkipped(id) ? [] : content(decoder.push(id))),
    finish: () => content(decoder.flush())
  }
}

/** A turn of the chat format; a call that is not well formed stays in the content as the model wrote it. @category constructors */
export const chat = (renderer: ChatRenderer, promptIds: Int32Array): Reader => {
  const parser = renderer.parser(promptIds)
  type Events = ReturnType<typeof parser.push>
  const deltas = (events: Events) =>
    events.flatMap((event): ReadonlyArray<Delta> => {
      if (event.type === "end") return []
      if (event.type !== "toolCall" || event.call.status === "ok") return [event]
      const { raw, status } = event.call
      return content(`<tool_call>${raw}${status === "unclosed_block" ? "" : "</tool_call>"}`)
    })
  return { push: (id) => deltas(parser.push(id)), finish: () => deltas(parser.finish().events) }
}
