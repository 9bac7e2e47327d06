/** 16-bit floats of a safetensors file as 32-bit ones; every value is exact. */
import type { DType } from "./Native.ts"

/** IEEE 754 binary16. */
const ofHalf = (bits: number): number => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

/** The values of little-endian bytes, in order. @category conversions */
export const toFloat32 = (dtype: DType, bytes: Uint8Array): Float32Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const width = dtype === "F32" ? 4 : 2
  const values = new Float32Array(bytes.byteLength / width)
  if (dtype === "BF16") {
    const words = new Uint32Array(values.buffer)
    for (let i = 0; i < words.length; i++) words[i] = view.getUint16(2 * i, true) << 16
    return values
  }
  for (let i = 0; i < values.length; i++) {
    values[i] = dtype === "F32" ? view.getFloat32(4 * i, true) : ofHalf(view.getUint16(2 * i, true))
  }
  return values
}
