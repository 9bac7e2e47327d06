/**
 * What the GLM formats share. No token ends a turn: the marker of the next one does, which the model writes itself, so
 * that after an assistant's turn it is sampled and yet no content.
 */
import * as Either from "effect/Either"
import type { Message } from "../../Message.ts"
import type { RendererError } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as Format from "./Format.ts"
import * as PairCall from "./PairCall.ts"
import type * as TurnParser from "./TurnParser.ts"
import * as Writer from "./Writer.ts"

/** @category constants */
export const markers = [
  ...["[gMASK]", "<sop>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
  ...["<think>", "</think>", "<tool_call>", "</tool_call>", ...PairCall.inner]
] as const

/** The marker that opens a message. @category getters */
export const markerOf = ({ role }: Message): string => (role === "tool" ? "<|observation|>" : `<|${role}|>`)

/** Opens a message, unless the turn before ended with its marker. @category writing */
export const open = (
  writer: Writer.Writer,
  messages: ReadonlyArray<Message>,
  options: { readonly index: number; readonly isThere: boolean }
) => {
  const { index, isThere } = options
  const marker = markerOf(messages[index]!)
  if (isThere) return
  const sampled = messages[index - 1]?.role === "assistant" && (marker === "<|user|>" || marker === "<|observation|>")
  writer.scaffold(marker, { message: index, sampled, content: false })
}

/** @category constructors */
export const read = (
  name: string,
  tokenizer: TokenizerService
): Either.Either<
  { readonly ids: Readonly<Record<(typeof markers)[number], number>>; readonly close: Format.Dialect["close"] },
  RendererError
> =>
  Either.map(Format.requireIds(name, tokenizer, markers), (ids) => ({
    ids,
    close: (writer, { isReasoning, stop }, messages) => {
      if (isReasoning) writer.scaffold("</think>", Writer.scaffold)
      if (stop === undefined) writer.scaffold("<|endoftext|>", Writer.scaffold)
      // a model that handed over to the user is not answered by a tool, nor the other way round
      return stop === undefined || stop === ids["<|endoftext|>"] || stop === tokenizer.special(markerOf(messages[0]!))
    }
  }))

/** Whether a sampled turn ended with the marker of the message after it. @category checks */
export const endedWith = (
  tokenizer: TokenizerService,
  sampled: Format.Sampled | undefined,
  message: Message
): boolean => sampled?.stop !== undefined && sampled.stop === tokenizer.special(markerOf(message))

/** @category constructors */
export const turnFormat = (
  tokenizer: TokenizerService,
  ids: Readonly<Record<(typeof markers)[number], number>>,
  lines: TurnParser.TurnFormat["lines"]
): TurnParser.TurnFormat => ({
  tokenizer,
  closeIds: [ids["<|user|>"], ids["<|observation|>"]],
  endIds: [ids["<|endoftext|>"]],
  openIds: [ids["<|assistant|>"], ids["<|system|>"]],
  think: { open: "<think>", close: "</think>" },
  calls: PairCall.syntax("<tool_call>", "</tool_call>"),
  callClosesReasoning: true,
  lines,
  emptyReasoningIsNone: true
})
