/**
 * Randomness that follows from names alone: a seed is a hash of what it is for (run, source, example, attempt, turn),
 * never of when it was asked for, so the same run draws the same numbers whatever finished first.
 */

/** A name or a number that a seed is derived from; 1 and "1" differ. @category model */
export type Part = number | string

const mix = (hash: number, word: number): number => {
  let k = Math.imul(word, 0xcc9e2d51)
  k = (k << 15) | (k >>> 17)
  const h = hash ^ Math.imul(k, 0x1b873593)
  return (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0
}

const float = new Float64Array(1)
const words = new Int32Array(float.buffer)

/**
 * Unsigned 32-bit hash of its parts, in order (MurmurHash3 x86_32 over the length and UTF-16 units of a text and over
 * the two halves of a number's 64 bits).
 *
 * @category derivation
 */
export const of = (...parts: ReadonlyArray<Part>): number => {
  let hash = parts.length
  for (const part of parts) {
    if (typeof part === "number") {
      float[0] = part === 0 ? 0 : part
      hash = mix(mix(mix(hash, -1), words[0]!), words[1]!)
    } else {
      hash = mix(hash, part.length)
      for (let i = 0; i < part.length; i++) hash = mix(hash, part.charCodeAt(i))
    }
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** A number in [0, 1) that follows from its parts. @category derivation */
export const unit = (...parts: ReadonlyArray<Part>): number => of(...parts) / 4294967296

/** Seed of one model call. `attempt` counts dispatches within the source, `turn` the calls of the rollout. @category derivation */
export const ofTurn = (options: {
  readonly run: number
  readonly source: string
  readonly example: string
  readonly attempt: number
  readonly turn: number
}): number => of(options.run, "turn", options.source, options.example, options.attempt, options.turn)

/**
 * Endless uniform numbers in [0, 1) from a 32-bit seed (Mulberry32: a Weyl sequence through a 32-bit mixer).
 *
 * @category generation
 */
export const generator = (seed: number): (() => number) => {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** The numbers 0 to size − 1 in an order that follows from the seed (Fisher–Yates). @category generation */
export const permutation = (size: number, seed: number): Int32Array => {
  const order = Int32Array.from({ length: size }, (_, i) => i)
  const random = generator(seed)
  for (let i = size - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    const held = order[i]!
    order[i] = order[j]!
    order[j] = held
  }
  return order
}
