/** Writes one rendering in the words of a format, where its special tokens are spelled; a message's own text mints none. */
import type { Message } from "../../Message.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as Runs from "./Runs.ts"

/** @category model */
export interface Writer {
  /** text of the format, in which the markers that the vocabulary has are special tokens */
  readonly scaffold: (text: string, part: Runs.Part) => void
  /** text that is never anything but text */
  readonly text: (text: string, part: Runs.Part) => void
  readonly special: (id: number, part: Runs.Part) => void
  readonly finish: Runs.Runs["finish"]
}

/** Template text of a message. @category parts */
export const outside = (message: number): Runs.Part => ({ message, sampled: false, content: false })
/** What the caller wrote. @category parts */
export const given = (message: number): Runs.Part => ({ message, sampled: false, content: true })
/** What a model would write. @category parts */
export const produced = (message: number): Runs.Part => ({ message, sampled: true, content: true })
/** Template text of no message. @category parts */
export const scaffold: Runs.Part = Runs.scaffold

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")

/** Finds markers in the words of a format, the longest first. @category constructors */
export const splitterOf = (tokenizer: TokenizerService, markers: ReadonlyArray<string>) => {
  const known = markers.filter((marker) => tokenizer.special(marker) !== undefined)
  if (known.length === 0) return (text: string) => [text]
  const longestFirst = [...known].sort((left, right) => right.length - left.length)
  const pattern = new RegExp(`(${longestFirst.map(escaped).join("|")})`)
  return (text: string) => text.split(pattern)
}

/** `prior` is what stands before and stays as it is. @category constructors */
export const make = (
  tokenizer: TokenizerService,
  split: (text: string) => ReadonlyArray<string>,
  prior: ReadonlyArray<Int32Array> = []
): Writer => {
  const runs = Runs.make(tokenizer, prior)
  return {
    scaffold: (text, part) => {
      // a split at a group gives text and markers in turn
      for (const [index, piece] of split(text).entries()) {
        if (index % 2 === 0) runs.text(piece, part)
        else runs.special(tokenizer.special(piece)!, part)
      }
    },
    text: runs.text,
    special: runs.special,
    finish: runs.finish
  }
}

/** The name of the tool that a result is of, if the message or an earlier call tells. @category getters */
export const toolNameOf = (messages: ReadonlyArray<Message>, index: number): string | undefined => {
  const message = messages[index]
  if (message?.role !== "tool") return undefined
  if (message.name !== undefined) return message.name
  for (let at = index - 1; at >= 0; at--) {
    const earlier = messages[at]!
    const call =
      earlier.role === "assistant" ? earlier.toolCalls?.find(({ id }) => id === message.toolCallId) : undefined
    if (call !== undefined) return call.name
  }
  return undefined
}
