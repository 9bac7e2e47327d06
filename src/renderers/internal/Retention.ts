/**
 * How long reasoning stays in the history, which decides whether a bridge may extend it. It never changes a full render.
 *
 * - "tool_cycle": until the user asks again, as most templates have it; a new question then rewrites history.
 * - "all": for good.
 */
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import type { Message } from "../../Message.ts"
import { RendererError } from "../../Renderer.ts"

/** @category model */
export type Retention = "tool_cycle" | "all"

/** @category model */
export const option = Schema.optional(Schema.Literal("tool_cycle", "all"))

const isWrappedResult = (text: string) => text.startsWith("<tool_response>") && text.endsWith("</tool_response>")

/** A turn of the user, unless it is a tool's result that was put into one. @category checks */
export const isQuestion = (message: Message): boolean =>
  message.role === "user" && !isWrappedResult(message.content.trim())

/** The same for a format that does not take white space off before it looks. @category checks */
export const isExactQuestion = (message: Message): boolean =>
  message.role === "user" && !isWrappedResult(message.content)

/** Any turn of the user. @category checks */
export const isUser = (message: Message): boolean => message.role === "user"

/** Whether new messages change what came before; `asks` is what the format takes for a question. @category checks */
export const rewrites =
  (retention: Retention, asks: (message: Message) => boolean) =>
  (messages: ReadonlyArray<Message>): boolean =>
    retention === "tool_cycle" && messages.some(asks)

/**
 * What is kept: the choice, if there is one, else what the format's own knobs come to. Left where the choice says the
 * opposite of a knob that keeps all reasoning.
 *
 * @category constructors
 */
export const choose = (
  renderer: string,
  choice: Retention | undefined,
  preserves: boolean,
  hasNone: boolean
): Either.Either<Retention, RendererError> => {
  if (preserves && choice === "tool_cycle") {
    const reason = 'keeps the reasoning of all turns by another key; thinkingRetention "tool_cycle" contradicts that'
    return Either.left(new RendererError({ renderer, reason }))
  }
  return Either.right(choice ?? (preserves || hasNone ? "all" : "tool_cycle"))
}
