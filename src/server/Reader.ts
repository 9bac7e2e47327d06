/** Sampled ids to what a client reads, as they arrive: plain text, or a chat turn with reasoning and tool calls. */
import type { ParsedToolCall, RendererService } from "../Renderer.ts"
import type { TokenizerService } from "../Tokenizer.ts"

/** What came to be known by one token. @category model */
export type Delta =
  | { readonly type: "content" | "reasoning"; readonly text: string }
  /** all content so far was reasoning, and follows as such */
  | { readonly type: "contentRevoked" }
  | { readonly type: "toolCall"; readonly call: Pick<ParsedToolCall, "status" | "raw" | "name" | "arguments"> }

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
export const chat = (renderer: RendererService, promptIds: Int32Array): Reader => {
  const parser = renderer.parser({ promptIds })
  type Events = ReturnType<typeof parser.push>
  const deltas = (events: Events) =>
    events.flatMap((event): ReadonlyArray<Delta> => {
      if (event.type === "content" || event.type === "reasoning" || event.type === "contentRevoked") return [event]
      if (event.type !== "toolCallEnd") return []
      return event.call.status === "ok" ? [{ type: "toolCall", call: event.call }] : content(event.call.source)
    })
  return { push: (id) => deltas(parser.push(id)), finish: () => deltas(parser.finish().events) }
}
