/**
 * Sampled ids as text and markers, in the order in which they came. A marker is decided by its id; one that the vocabulary
 * lacks is found in the text, and text that may be the start of one waits until it is decided.
 */
import type { TokenizerService } from "../../Tokenizer.ts"

/** A stretch of text without markers, or one marker. @category model */
export interface Segment {
  readonly text: string
  readonly isMarker: boolean
  /** tokens read before this one's last token */
  readonly at: number
}

/** @category model */
export interface Segments {
  readonly push: (id: number) => ReadonlyArray<Segment>
  readonly finish: () => ReadonlyArray<Segment>
}

/** How a format spells what separates the parts of a turn. @category model */
export interface Markers {
  readonly byId: ReadonlyMap<number, string>
  /** those without an id */
  readonly spelled: ReadonlyArray<string>
}

/** Every marker by its id if the vocabulary has one. @category constructors */
export const markersOf = (tokenizer: TokenizerService, spellings: ReadonlyArray<string>): Markers => {
  const ids = spellings.map((text) => [tokenizer.special(text), text] as const)
  return {
    byId: new Map(ids.flatMap(([id, text]) => (id === undefined ? [] : [[id, text] as const]))),
    spelled: ids.flatMap(([id, text]) => (id === undefined ? [text] : []))
  }
}

/** How many of the last characters may be the start of one of the texts. @category conversions */
export const heldBy = (text: string, starts: ReadonlyArray<string>): number => {
  let most = 0
  for (const start of starts) {
    for (let length = Math.min(start.length - 1, text.length); length > most; length--) {
      if (text.endsWith(start.slice(0, length))) most = length
    }
  }
  return most
}

/** @category constructors */
export const make = (tokenizer: TokenizerService, { byId, spelled }: Markers): Segments => {
  const decoder = tokenizer.decoder()
  let count = 0
  let pending = ""

  /** the text that is decided, cut at the markers that it spells */
  const taken = (isLast: boolean): Array<Segment> => {
    const out: Array<Segment> = []
    const at = Math.max(0, count - 1)
    const add = (text: string, isMarker: boolean) => {
      if (text !== "") out.push({ text, isMarker, at })
    }
    for (;;) {
      let first = -1
      let found = ""
      for (const marker of spelled) {
        const start = pending.indexOf(marker)
        if (start >= 0 && (first < 0 || start < first || (start === first && marker.length > found.length))) {
          first = start
          found = marker
        }
      }
      if (first < 0) break
      add(pending.slice(0, first), false)
      add(found, true)
      pending = pending.slice(first + found.length)
    }
    const end = isLast ? pending.length : pending.length - heldBy(pending, spelled)
    add(pending.slice(0, end), false)
    pending = pending.slice(end)
    return out
  }
  return {
    push: (id) => {
      const marker = byId.get(id)
      if (marker === undefined) {
        count++
        pending += decoder.push(id)
        return taken(false)
      }
      pending += decoder.flush()
      const before = taken(true)
      count++
      return [...before, { text: marker, isMarker: true, at: count - 1 }]
    },
    finish: () => {
      pending += decoder.flush()
      return taken(true)
    }
  }
}
