/**
 * Finds added tokens in a text, for programs that encode a text with its special tokens in it. Of several the one that
 * begins first is taken, and of those the longest.
 */

/** A token beside those of the vocabulary. @category model */
export interface AddedToken {
  readonly id: number
  readonly content: string
  /** left out by `skipSpecialTokens` */
  readonly special: boolean
  /** sought in the normalised text */
  readonly normalized: boolean
  /** takes the white space before it, or after */
  readonly lstrip: boolean
  readonly rstrip: boolean
  /** no token where a letter or digit stands before or after it */
  readonly singleWord: boolean
}

/** A stretch of text, or an added token and all that it takes. @category model */
export interface Section {
  readonly text: string
  readonly id: number | undefined
}

interface Branch {
  readonly next: Map<number, Branch>
  token: AddedToken | undefined
}

const makeTree = (tokens: ReadonlyArray<AddedToken>): Branch => {
  const root: Branch = { next: new Map(), token: undefined }
  for (const token of tokens) {
    let branch = root
    for (let at = 0; at < token.content.length; at++) {
      const unit = token.content.charCodeAt(at)
      const found: Branch = branch.next.get(unit) ?? { next: new Map(), token: undefined }
      branch.next.set(unit, found)
      branch = found
    }
    branch.token = token
  }
  return root
}

const wordAtEnd = /[\p{L}\p{M}\p{N}\p{Pc}]$/u
const wordAtStart = /^[\p{L}\p{M}\p{N}\p{Pc}]/u
const white = /\p{White_Space}/u

const isAlone = (text: string, from: number, to: number): boolean =>
  !wordAtEnd.test(text.slice(Math.max(0, from - 2), from)) && !wordAtStart.test(text.slice(to, to + 2))

/** Cuts a text into sections, none of which is empty. @category constructors */
export const sectionsOf = (tokens: ReadonlyArray<AddedToken>): ((text: string) => ReadonlyArray<Section>) => {
  const root = makeTree(tokens)
  const begins = new Uint8Array(0x10000)
  for (const unit of root.next.keys()) begins[unit] = 1
  const tokenAt = (text: string, from: number): AddedToken | undefined => {
    let found: AddedToken | undefined
    let branch = root.next.get(text.charCodeAt(from))
    for (let at = from + 1; branch !== undefined; at++) {
      const { token } = branch
      if (token !== undefined && (!token.singleWord || isAlone(text, from, at))) found = token
      branch = branch.next.get(text.charCodeAt(at))
    }
    return found
  }
  return (text) => {
    const sections: Array<Section> = []
    let done = 0
    for (let at = 0; at < text.length; at++) {
      if (begins[text.charCodeAt(at)] === 0) continue
      const token = tokenAt(text, at)
      if (token === undefined) continue
      let from = at
      let to = at + token.content.length
      if (token.lstrip) while (from > done && white.test(text[from - 1]!)) from--
      if (token.rstrip) while (to < text.length && white.test(text[to]!)) to++
      if (from > done) sections.push({ text: text.slice(done, from), id: undefined })
      sections.push({ text: text.slice(from, to), id: token.id })
      done = to
      at = to - 1
    }
    if (done < text.length) sections.push({ text: text.slice(done), id: undefined })
    return sections
  }
}
