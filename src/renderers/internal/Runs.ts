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

/** Neighbouring tokens of one part. */
interface Stretch {
  readonly ids: ArrayLike<number>
  readonly part: Part
}

/** @category constructors */
export const make = (tokenizer: TokenizerService, prior: ReadonlyArray<Int32Array> = []): Runs => {
  const stretches: Array<Stretch> = prior.map((ids) => ({ ids, part: scaffold }))
  let run: Array<{ readonly text: string; readonly part: Part }> = []
  const flush = () => {
    const pieces = run
    run = []
    if (pieces.length === 0) return
    const { ends: lasts, ids, starts } = tokenizer.encode(pieces.map(({ text }) => text).join(""))
    let text = ""
    // measured from the start, since normalising may join characters across a seam; where the last ends nobody asks
    const ends = pieces.slice(0, -1).map((piece) => {
      text += piece.text
      return Buffer.byteLength(tokenizer.normalize(text))
    })
    let piece = 0
    const ownerOf = (at: number): number => {
      while (piece < ends.length && starts[at]! >= ends[piece]!) piece++
      let owner = piece
      for (let next = piece + 1; next < pieces.length && lasts[at]! > ends[next - 1]!; next++) {
        if (pieces[next]!.part.takesSeam === true && !pieces[owner]!.part.content) owner = next
      }
      return owner
    }
    let from = 0
    let owner = 0
    for (let at = 0; at < ids.length; at++) {
      const next = ends.length === 0 ? 0 : ownerOf(at)
      if (next === owner) continue
      stretches.push({ ids: ids.subarray(from, at), part: pieces[owner]!.part })
      from = at
      owner = next
    }
    stretches.push({ ids: ids.subarray(from), part: pieces[owner]!.part })
  }
  return {
    special: (id, part) => {
      flush()
      stretches.push({ ids: [id], part })
    },
    text: (text, part) => {
      if (text !== "") run.push({ text, part })
    },
    finish: () => {
      flush()
      const length = stretches.reduce((sum, { ids }) => sum + ids.length, 0)
      const tokenIds = new Int32Array(length)
      const messageIndices = new Int32Array(length)
      const sampledMask = new Uint8Array(length)
      const isContent = new Uint8Array(length)
      let at = 0
      for (const { ids, part } of stretches) {
        const end = at + ids.length
        tokenIds.set(ids, at)
        messageIndices.fill(part.message, at, end)
        if (part.sampled) sampledMask.fill(1, at, end)
        if (part.content) isContent.fill(1, at, end)
        at = end
      }
      return { tokenIds, messageIndices, sampledMask, isContent }
    }
  }
}
