/**
 * One choice of an answer while it is sampled: token by token to what is said, where it ends and why. Streamed and whole
 * answers are this one machine, so they cannot disagree.
 */
import type { TokenizerService } from "../Tokenizer.ts"
import * as Stops from "../wire/Stops.ts"
import type { Delta, Reader } from "./Reader.ts"
import * as Reading from "./Reader.ts"

/** A token that was sampled. @category model */
export interface Token {
  readonly id: number
  /** at the sampling temperature */
  readonly logprob: number
  /** characters (code points) of the text before this token's */
  readonly offset: number
}

/** Why a choice ended; `stop` is the text or the id that ended it, where the caller asked for it. @category model */
export interface Finish {
  readonly reason: "stop" | "length"
  readonly stop: string | number | undefined
}

/** What some tokens brought. Every token is in one part; the last has `finish`. @category model */
export interface Part {
  readonly deltas: ReadonlyArray<Delta>
  readonly tokens: ReadonlyArray<Token>
  readonly finish: Finish | undefined
}

/** @category model */
export interface Choice {
  /** Takes tokens up to the end of the choice; those behind it are none of it. */
  readonly push: (tokenIds: Int32Array, logprobs: Float32Array) => Part
}

/** @category model */
export interface Options {
  readonly tokenizer: TokenizerService
  readonly reader: Reader
  /** texts that end the choice; they and what follows are left out */
  readonly stops: ReadonlyArray<string>
  /** ids that end it: the model's own and the caller's */
  readonly endIds: ReadonlySet<number>
  /** the caller's */
  readonly stopTokenIds: ReadonlySet<number>
  readonly maxTokens: number
  readonly skipSpecialTokens: boolean
}

/** A choice that nothing is sampled for. @category constructors */
export const empty: Part = { deltas: [], tokens: [], finish: { reason: "length", stop: undefined } }

const lengthOf = (delta: Delta): number => ("text" in delta ? delta.text.length : 0)

/** Without the last `cut` characters; a call ends the text that they can be in. */
const shortened = (deltas: ReadonlyArray<Delta>, cut: number): Array<Delta> => {
  const kept = [...deltas]
  let left = cut
  for (let at = kept.length - 1; at >= 0 && left > 0; at--) {
    const delta = kept[at]!
    if (delta.type === "toolCall") break
    if (!("text" in delta)) continue
    const text = delta.text.slice(0, Math.max(0, delta.text.length - left))
    left -= delta.text.length - text.length
    if (text === "") kept.splice(at, 1)
    else kept[at] = { ...delta, text }
  }
  return kept
}

/** @category constructors */
export const make = (options: Options): Choice => {
  const { endIds, maxTokens, reader, stopTokenIds } = options
  // Stop texts are looked for in what was sampled as it reads, whatever the chat format makes of it.
  const raw = Reading.plain(options.tokenizer, { skipSpecialTokens: options.skipSpecialTokens })
  const stops = Stops.make(options.stops)
  let count = 0
  let offset = 0
  let waiting: Array<Delta> = []

  const rawText = (deltas: ReadonlyArray<Delta>) => deltas.map((delta) => ("text" in delta ? delta.text : "")).join("")

  /** Takes from what waits all but the last `held` characters. */
  const released = (held: number): ReadonlyArray<Delta> => {
    let free = waiting.reduce((sum, delta) => sum + lengthOf(delta), 0) - held
    const out: Array<Delta> = []
    while (waiting.length > 0 && (free > 0 || lengthOf(waiting[0]!) === 0)) {
      const delta = waiting[0]!
      const length = lengthOf(delta)
      if (length <= free || length === 0) {
        out.push(delta)
        waiting.shift()
      } else if ("text" in delta) {
        // never between the two halves of a character
        const at = free - (/[\ud800-\udbff]/.test(delta.text[free - 1]!) ? 1 : 0)
        if (at > 0) out.push({ ...delta, text: delta.text.slice(0, at) })
        waiting[0] = { ...delta, text: delta.text.slice(at) }
      }
      free -= length
    }
    return out
  }

  const endOf = (id: number): Finish | undefined => {
    if (endIds.has(id)) return { reason: "stop", stop: stopTokenIds.has(id) ? id : undefined }
    return count >= maxTokens ? { reason: "length", stop: undefined } : undefined
  }

  return {
    push: (tokenIds, logprobs) => {
      const deltas: Array<Delta> = []
      const tokens: Array<Token> = []
      let finish: Finish | undefined
      for (let at = 0; at < tokenIds.length && finish === undefined; at++) {
        const id = tokenIds[at]!
        tokens.push({ id, logprob: logprobs[at]!, offset })
        count++
        finish = endOf(id)
        let text = ""
        if (!endIds.has(id)) {
          waiting.push(...reader.push(id))
          text = rawText(raw.push(id))
        }
        const found = stops.push(text)
        if ("stop" in found) {
          finish = { reason: "stop", stop: found.stop }
          waiting.push(...reader.finish())
          waiting = shortened(waiting, found.cut + rawText(raw.finish()).length)
        } else if (finish !== undefined) waiting.push(...reader.finish())
        offset += Array.from(text).length
        deltas.push(...released(finish === undefined && "held" in found ? found.held : 0))
      }
      return { deltas, tokens, finish }
    }
  }
}
