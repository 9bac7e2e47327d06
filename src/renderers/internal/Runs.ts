/**
 * Assembles rendered ids. A run is everything between two special tokens, and it is encoded in one pass: pieces of a run
 * that were encoded apart would not merge across their seam, and the ids would not be those the model was trained on.
 * A token belongs to the piece that holds its first byte, unless a later one says that it takes the seam.
 */
import type { Rendered } from "../../Renderer.ts"
import type { TokenizerService } from "../../Tokenizer.ts"

/** What a piece is a part of. @category model */
export interface Part {
  /** index of the message, −1 for none */
  readonly message: number
  readonly sampled: boolean
  readonly content: boolean
  /** takes a token that it shares with scaffold, whoever's byte comes first: for bodies that stand glued to their frame */
  readonly takesSeam?: boolean | undefined
}

/** @category model */
export interface Runs {
  /** appends a token by its id, and so ends the run */
  readonly special: (id: number, part: Part) => void
  readonly text: (text: string, part: Part) => void
  readonly finish: () => Rendered
}

/** scaffold of no message @category constants */
export const scaffold: Part = { message: -1, sampled: false, content: false }

/** @category constructors */
export const make = (tokenizer: TokenizerService, prior: ReadonlyArray<Int32Array> = []): Runs => {
  const ids: Array<number> = []
  const parts: Array<Part> = []
  let run: Array<{ readonly text: string; readonly part: Part }> = []
  const append = (id: number, part: Part) => {
    ids.push(id)
    parts.push(part)
  }
  const flush = () => {
    const pieces = run
    run = []
    if (pieces.length === 0) return
    const joined = pieces.map(({ text }) => text).join("")
    const encoding = tokenizer.encode(joined)
    let text = ""
    // measured from the start, since normalising may join characters across a seam
    const ends = pieces.map((piece) => {
      text += piece.text
      return Buffer.byteLength(tokenizer.normalize(text))
    })
    let piece = 0
    for (let at = 0; at < encoding.ids.length; at++) {
      while (encoding.starts[at]! >= ends[piece]! && piece + 1 < pieces.length) piece++
      let owner = piece
      for (let next = piece + 1; next < pieces.length && encoding.ends[at]! > ends[next - 1]!; next++) {
        if (pieces[next]!.part.takesSeam === true && !pieces[owner]!.part.content) owner = next
      }
      append(encoding.ids[at]!, pieces[owner]!.part)
    }
  }
  for (const tape of prior) for (const id of tape) append(id, scaffold)
  return {
    special: (id, part) => {
      flush()
      append(id, part)
    },
    text: (text, part) => {
      if (text !== "") run.push({ text, part })
    },
    finish: () => {
      flush()
      return {
        tokenIds: Int32Array.from(ids),
        messageIndices: Int32Array.from(parts, ({ message }) => message),
        sampledMask: Uint8Array.from(parts, ({ sampled }) => (sampled ? 1 : 0)),
        isContent: Uint8Array.from(parts, ({ content }) => (content ? 1 : 0))
      }
    }
  }
}
