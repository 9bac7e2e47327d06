/**
 * Which part of a template's text belongs to which message, found by rendering less of the conversation: where a shorter
 * conversation renders to a beginning of the whole, its end is where the next message starts. Where the template rewrites
 * what came before, the end of the last message's own text is looked for, and its turn closed.
 */
import type { Message } from "../../Message.ts"
import type { JinjaTemplate, Piece, Rendering } from "./JinjaTemplate.ts"
import * as Writer from "./Writer.ts"

/** @category conversions */
export const textOf = (pieces: ReadonlyArray<Piece>): string => pieces.map(({ text }) => text).join("")

/** Characters from the front that two texts share. @category getters */
export const sharedStart = (left: string, right: string): number => {
  let length = 0
  while (length < left.length && left[length] === right[length]) length++
  return length
}

/** Where every piece starts, in characters. */
const startsOf = (pieces: ReadonlyArray<Piece>): ReadonlyArray<number> => {
  let at = 0
  return pieces.map(({ text }) => {
    const start = at
    at += text.length
    return start
  })
}

/** The end of the turn that holds the character `from`: behind its closing token and the white space after that. */
const endOfTurn = (pieces: ReadonlyArray<Piece>, from: number, closeIds: ReadonlyArray<number>): number => {
  const starts = startsOf(pieces)
  const close = pieces.findIndex(({ id }, index) => starts[index]! >= from && id !== undefined && closeIds.includes(id))
  if (close < 0) return from
  const after = pieces[close + 1]
  const end = starts[close]! + pieces[close]!.text.length
  return after !== undefined && after.id === undefined ? end + /^\s*/.exec(after.text)![0].length : end
}

/**
 * Where each message of a rendering starts, and where the last one ends.
 *
 * @category getters
 */
export const starts = (
  template: JinjaTemplate,
  rendering: Rendering,
  options: { readonly closeIds: ReadonlyArray<number>; readonly from: number }
): ReadonlyArray<number> => {
  const { messages, tools } = rendering
  const whole = template.pieces({ messages, tools, addGenerationPrompt: false })
  const text = textOf(whole)
  const found: Array<number> = []
  for (let count = options.from; count < messages.length; count++) {
    if (count === 0) {
      found.push(0)
      continue
    }
    const shorter = textOf(template.pieces({ messages: messages.slice(0, count), tools, addGenerationPrompt: false }))
    if (text.startsWith(shorter)) {
      found.push(shorter.length)
      continue
    }
    // what follows the text of the message before stays when that text changes
    const changed = messages.map((message, index) =>
      index === count - 1 ? { ...message, content: `${message.content ?? ""}\u{f8fe}` } : message
    )
    const other = textOf(template.pieces({ messages: changed, tools, addGenerationPrompt: false }))
    let same = 0
    while (same < text.length && text[text.length - 1 - same] === other[other.length - 1 - same]) same++
    found.push(endOfTurn(whole, text.length - same, options.closeIds))
  }
  return [...found.map((at, index) => Math.max(at, ...found.slice(0, index))), text.length]
}

/** What a character of the rendering is a part of, from `start` on to the next. @category model */
export interface Span {
  readonly start: number
  readonly part: Parameters<Writer.Writer["text"]>[1]
}

/** The spans of one message, whose text goes from `start` to `end`. @category conversions */
export const ofMessage = (
  message: Message,
  options: {
    readonly index: number
    readonly text: string
    readonly start: number
    readonly end: number
    /** what a prompt for the message would end with */
    readonly prompt: string
    /** behind the last token that closes a turn in the message; its end if there is none */
    readonly closed: number
  }
): ReadonlyArray<Span> => {
  const { closed, end, index, prompt, start, text } = options
  const outside = { start, part: Writer.outside(index) }
  if (message.role === "assistant") {
    const from = start + sharedStart(text.slice(start, end), prompt)
    return [outside, { start: from, part: Writer.produced(index) }, { start: closed, part: Writer.outside(index) }]
  }
  const own = text.slice(start, end)
  const body = [message.content, message.content.trim()].find((one) => one !== "" && own.includes(one))
  // a text that stands there twice could be either of the two: then none is told apart
  if (body === undefined || own.indexOf(body) !== own.lastIndexOf(body)) return [outside]
  const from = start + own.indexOf(body)
  return [
    outside,
    { start: from, part: Writer.given(index) },
    { start: from + body.length, part: Writer.outside(index) }
  ]
}

/** Writes pieces from a character on, each in the part of the span that it stands in; a special token is never cut. @category writing */
export const write = (
  writer: Writer.Writer,
  pieces: ReadonlyArray<Piece>,
  options: { readonly spans: ReadonlyArray<Span>; readonly from: number }
) => {
  const spans = [...options.spans].sort((left, right) => left.start - right.start)
  const partAt = (at: number) => spans.findLast(({ start }) => start <= at)?.part ?? Writer.scaffold
  const positions = startsOf(pieces)
  for (const [index, { id, text }] of pieces.entries()) {
    const start = positions[index]!
    if (start + text.length <= options.from) continue
    if (id !== undefined) {
      writer.special(id, partAt(start))
      continue
    }
    let at = Math.max(start, options.from)
    while (at < start + text.length) {
      const from = at
      const next = spans.find((span) => span.start > from)?.start ?? Number.POSITIVE_INFINITY
      at = Math.min(next, start + text.length)
      writer.text(text.slice(from - start, at - start), partAt(from))
    }
  }
}
