/** The bytes that each id stands for; from these ids become text again, whole or as they arrive. */
import { TextDecoder } from "node:util"
import type { Decoder } from "../Tokenizer.ts"
import type { ByteTable } from "./ByteTable.ts"

/** @category model */
export interface TokenBytes {
  readonly decode: (ids: Iterable<number>, skip?: (id: number) => boolean) => string
  readonly decoder: () => Decoder
}

const replacement = Buffer.from("\ufffd", "utf8")
const space = 32

// ignoreBOM: a byte order mark that was sampled is part of the text
const utf8 = () => new TextDecoder("utf-8", { ignoreBOM: true })

/** `stripsSpace` takes one space from the start of a text. An id outside of the table reads as U+FFFD. @category constructors */
export const make = ({ bytes, starts }: ByteTable, stripsSpace: boolean): TokenBytes => {
  const size = starts.length - 1
  const whole = utf8()
  const known = (id: number): boolean => id >= 0 && id < size
  const bytesOf = (id: number): Uint8Array => (known(id) ? bytes.subarray(starts[id]!, starts[id + 1]!) : replacement)
  return {
    decode: (ids, skip) => {
      let text = new Uint8Array(256)
      let length = 0
      for (const id of ids) {
        if (skip?.(id)) continue
        const source = known(id) ? bytes : replacement
        const from = known(id) ? starts[id]! : 0
        const end = known(id) ? starts[id + 1]! : replacement.length
        if (length + end - from > text.length) {
          const longer = new Uint8Array((length + end - from) * 2)
          longer.set(text.subarray(0, length))
          text = longer
        }
        for (let at = from; at < end; at++) text[length++] = source[at]!
      }
      return whole.decode(text.subarray(stripsSpace && length > 0 && text[0] === space ? 1 : 0, length))
    },
    decoder: () => {
      const stream = utf8()
      let strips = stripsSpace
      return {
        push: (id) => {
          const next = bytesOf(id)
          const strip = strips && next[0] === space
          if (next.length > 0) strips = false
          return stream.decode(strip ? next.subarray(1) : next, { stream: true })
        },
        flush: () => stream.decode()
      }
    }
  }
}
