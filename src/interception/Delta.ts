/** What a turn says, piece by piece, as an agent may hear of it. */
import type { ToolCall } from "../Message.ts"

/** A piece of a turn. A call comes whole, once it is known to be well formed. @category model */
export type Delta =
  | { readonly type: "reasoning" | "content"; readonly text: string }
  /** takes back all content so far, which was reasoning and follows as such */
  | { readonly type: "contentRevoked" }
  | { readonly type: "call"; readonly call: ToolCall }
