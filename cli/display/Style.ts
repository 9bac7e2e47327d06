/** Colour and width of text on a terminal. Widths count what is seen, never the codes. */

/** @category model */
export interface Style {
  readonly colour: boolean
  readonly unicode: boolean
}

/** @category model */
export type Colour = "bold" | "dim" | "red" | "green" | "yellow" | "cyan"

const codes: Readonly<Record<Colour, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 }

/** @category conversions */
export const paint = (style: Style, colour: Colour | undefined, text: string): string =>
  style.colour && colour !== undefined && text !== "" ? `\u001b[${codes[colour]}m${text}\u001b[0m` : text

// biome-ignore lint/suspicious/noControlCharactersInRegex: colour codes begin with ESC
const code = /\u001b\[[0-9;]*m/g

/** @category conversions */
export const plain = (text: string): string => text.replace(code, "")

/** Columns that a line takes; all that is printed here is one column wide per character. @category getters */
export const width = (text: string): number => Array.from(plain(text)).length

/** At most `columns` of a line, with its colours closed. @category conversions */
export const cut = (text: string, columns: number): string => {
  if (width(text) <= columns) return text
  let seen = 0
  let out = ""
  for (let index = 0; index < text.length && seen < columns; ) {
    code.lastIndex = index
    const next = code.exec(text)
    if (next?.index === index) {
      out += next[0]
      index += next[0].length
      continue
    }
    const character = String.fromCodePoint(text.codePointAt(index)!)
    out += character
    index += character.length
    seen++
  }
  code.lastIndex = 0
  return out.includes("\u001b") ? `${out}\u001b[0m` : out
}
