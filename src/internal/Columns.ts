/** Typed arrays as JSON strings: base64 of their little-endian bytes, so that every bit comes back, −0 included. */
import * as Either from "effect/Either"

const bigEndian = new Uint8Array(Uint16Array.of(1).buffer)[0] === 0

const base64 = (bytes: Buffer, width: 1 | 4): string =>
  (bigEndian && width === 4 ? Buffer.from(bytes).swap32() : bytes).toString("base64")

export const encode = (array: Int32Array | Float32Array | Uint8Array): string =>
  base64(Buffer.from(array.buffer, array.byteOffset, array.byteLength), array.BYTES_PER_ELEMENT === 1 ? 1 : 4)

const bytesOf = (text: string, width: 1 | 4): Either.Either<Buffer, string> => {
  const bytes = Buffer.from(text, "base64")
  // Buffer skips what is not base64 instead of refusing it.
  if (bytes.toString("base64") !== text) return Either.left("not base64")
  if (bytes.length % width !== 0)
    return Either.left(`${bytes.length} bytes are no whole number of ${width}-byte values`)
  return Either.right(bigEndian && width === 4 ? bytes.swap32() : bytes)
}

/** The bytes of a small Buffer lie anywhere in a pool: a copy is aligned and owns its memory. */
const owned = (bytes: Buffer): ArrayBuffer => {
  const copy = new ArrayBuffer(bytes.length)
  new Uint8Array(copy).set(bytes)
  return copy
}

export const int32 = (text: string): Either.Either<Int32Array, string> =>
  Either.map(bytesOf(text, 4), (bytes) => new Int32Array(owned(bytes)))

export const uint8 = (text: string): Either.Either<Uint8Array, string> =>
  Either.map(bytesOf(text, 1), (bytes) => new Uint8Array(owned(bytes)))

/** Refuses NaN and infinities: a log-probability that is none must not come back as a number to train on. */
export const float32 = (text: string): Either.Either<Float32Array, string> =>
  Either.flatMap(bytesOf(text, 4), (bytes) => {
    const values = new Float32Array(owned(bytes))
    const at = values.findIndex((value) => !Number.isFinite(value))
    return at === -1 ? Either.right(values) : Either.left(`value ${at} is ${values[at]}`)
  })
