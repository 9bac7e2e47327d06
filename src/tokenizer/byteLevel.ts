/**
 * The byte alphabet of byte-level BPE: every byte has one printable symbol, so that a vocabulary file is plain text and
 * any input at all can be encoded. Symbols and bytes correspond one to one.
 *
 * Printable Latin-1 bytes stand for themselves; the other 68 take the code points from U+0100 on, in byte order
 * (Radford et al. 2019, the GPT-2 vocabulary).
 */

const standsForItself = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff)

/** The symbol of each byte, indexed by byte value. @category alphabet */
export const symbolOfByte: ReadonlyArray<string> = (() => {
  const symbols: Array<string> = []
  let next = 0x100
  for (let byte = 0; byte < 256; byte++) symbols.push(String.fromCharCode(standsForItself(byte) ? byte : next++))
  return symbols
})()

/** The byte of each symbol. */
const byteOfSymbol: ReadonlyMap<string, number> = new Map(symbolOfByte.map((symbol, byte) => [symbol, byte]))

/** A text in the spelling that byte-level vocabularies use: one symbol per UTF-8 byte. @category conversions */
export const toSymbols = (text: string): string => {
  let symbols = ""
  for (const byte of Buffer.from(text, "utf8")) symbols += symbolOfByte[byte]
  return symbols
}

/** The bytes that a vocabulary entry stands for; undefined when a character of it is not in the alphabet. @category conversions */
export const fromSymbols = (symbols: string): Uint8Array | undefined => {
  const bytes = new Uint8Array(symbols.length)
  for (let at = 0; at < symbols.length; at++) {
    const byte = byteOfSymbol.get(symbols[at]!)
    if (byte === undefined) return undefined
    bytes[at] = byte
  }
  return bytes
}
