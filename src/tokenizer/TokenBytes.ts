/** The bytes that each id stands for, in one flat array; from these ids become text again, whole or as they arrive. */
import { TextDecoder } from "node:util"
import type { Decoder } from "../Tokenizer.ts"

/** @category model */
export interface TokenBytes {
  readonly lengthOf: (id: number) => number
  readonly decode: (ids: Iterable<number>, skip?: (id: number) => boolean) => string
  readonly decoder: () => Decoder
}

const replacement = Buffer.from("\ufffd", "utf8")

// ignoreBOM: a byte order mark that was sampled is part of the text
const utf8 = () => new TextDecoder("utf-8", { ignoreBOM: true })

/** `bytes[id]` is undefined for an id without a token, which then reads as U+FFFD. @category constructors */
export const make = (bytes: ReadonlyArray<Uint8Array | undefined>): TokenBytes => {
  const starts = new Int32Array(bytes.length + 1)
  for (let id = 0; id < bytes.length; id++) starts[id + 1] = starts[id]! + (bytes[id] ?? replacement).length
  const flat = new Uint8Array(starts[bytes.length]!)
  for (let id = 0; id < bytes.length; id++) flat.set(bytes[id] ?? replacement, starts[id]!)
  const bytesOf = (id: number): Uint8Array =>
    id >= 0 && id < bytes.length ? flat.subarray(starts[id]!, starts[id + 1]!) : replacement
  return {
    lengthOf: (id) => bytesOf(id).length,
    decode: (ids, skip) => {
      const parts: Array<Uint8Array> = []
      for (const id of ids) if (skip === undefined || !skip(id)) parts.push(bytesOf(id))
      return utf8().decode(Buffer.concat(parts))
    },
    decoder: () => {
      const stream = utf8()
      return {
        push: (id) => stream.decode(bytesOf(id), { stream: true }),
        flush: () => stream.decode()
      }
    }
  }
}
