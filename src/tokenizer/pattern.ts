/**
 * Tokenizer files carry regular expressions in Oniguruma's dialect. A pattern either becomes a JavaScript expression
 * that finds the same matches, or is refused: a near miss would silently give other token ids.
 */
import * as Either from "effect/Either"

/** what the character classes of the dialect mean, inside and outside of brackets */
const classes: Readonly<Record<string, readonly [inside: string | undefined, outside: string]>> = {
  s: ["\\p{White_Space}", "\\p{White_Space}"],
  S: ["\\P{White_Space}", "\\P{White_Space}"],
  d: ["\\p{Nd}", "\\p{Nd}"],
  D: ["\\P{Nd}", "\\P{Nd}"],
  w: ["\\p{L}\\p{M}\\p{N}\\p{Pc}", "[\\p{L}\\p{M}\\p{N}\\p{Pc}]"],
  W: [undefined, "[^\\p{L}\\p{M}\\p{N}\\p{Pc}]"]
}

/** letters outside of ASCII that fold to an ASCII letter */
const alsoFolds: Readonly<Record<string, string>> = { s: "\u017f", k: "\u212a" }

const refuse = (what: string): Either.Either<never, string> => Either.left(`${what} is not supported in a pattern`)

const compile = (source: string): Either.Either<RegExp, string> =>
  Either.try({ try: () => new RegExp(source, "gu"), catch: (cause) => String(cause) })

const property = (escape: string, name: string): string | undefined =>
  [name, `Script=${name}`].map((spelling) => `\\${escape}{${spelling}}`).find((text) => Either.isRight(compile(text)))

/** @category conversions */
export const toRegExp = (source: string): Either.Either<RegExp, string> => {
  let out = ""
  let inClass = false
  let folding = false
  const outer: Array<boolean> = []
  let at = 0
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    if (found !== undefined) at += found.length
    return found
  }
  while (at < source.length) {
    const escape = take(/\\[pP]\{[\w=]+\}/y)
    if (escape !== undefined) {
      const known = property(escape[1]!, escape.slice(3, -1))
      if (known === undefined) return refuse(`the property ${escape}`)
      out += known
      continue
    }
    const codePoint = take(/\\x\{[0-9a-fA-F]+\}/y)
    if (codePoint !== undefined) {
      out += `\\u${codePoint.slice(2)}`
      continue
    }
    const plain = take(/\\(?:[rntfv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})/y)
    if (plain !== undefined) {
      out += plain
      continue
    }
    if (source[at] === "\\") {
      const letter = source[at + 1] ?? ""
      const meaning = classes[letter]?.[inClass ? 0 : 1]
      if (meaning !== undefined) out += meaning
      else if (/[\w]|^$/.test(letter)) return refuse(`\\${letter}`)
      else out += /[\^$\\.*+?()[\]{}|/]/.test(letter) || (letter === "-" && inClass) ? `\\${letter}` : letter
      at += 2
      continue
    }
    if (inClass) {
      if (source[at] === "[" || take(/&&/y) !== undefined) return refuse("a nested or intersected class")
      const ranged = source[at + 1] === "-" || source[at - 1] === "-"
      const char = String.fromCodePoint(source.codePointAt(at)!)
      if (char === "]") inClass = false
      if (folding && /[a-zA-Z]/.test(char)) {
        if (ranged) return refuse("a range of letters without case")
        out += char.toLowerCase() + char.toUpperCase() + (alsoFolds[char.toLowerCase()] ?? "")
      } else out += char === "{" || char === "}" || char === "(" || char === ")" || char === "|" ? `\\${char}` : char
      at += char.length
      continue
    }
    const quantifier = take(/(?:[*+?]|\{\d*,?\d*\})\??/y)
    if (quantifier !== undefined) {
      if (source[at] === "+") return refuse("a possessive quantifier")
      out += quantifier.replace("{,", "{0,")
      continue
    }
    const group = take(/\((?:\?(?:i:|:|=|!|<=|<!))?/y)
    if (group !== undefined) {
      if (source[at] === "?") return refuse(`the group (${source.slice(at, at + 3)}`)
      outer.push(folding)
      folding = folding || group === "(?i:"
      out += group === "(?i:" ? "(?:" : group
      continue
    }
    const char = String.fromCodePoint(source.codePointAt(at)!)
    at += char.length
    if (char === ")") folding = outer.pop() ?? false
    if (char === "[") {
      inClass = true
      out += char + (take(/\^/y) ?? "")
    } else if (char === "^" || char === "$") return refuse(`the anchor ${char}`)
    else if (char === ".") out += "[^\\n]"
    else if (char === "{" || char === "}" || char === "]") out += `\\${char}`
    else if (folding && /[a-zA-Z]/.test(char)) {
      out += `[${char.toLowerCase()}${char.toUpperCase()}${alsoFolds[char.toLowerCase()] ?? ""}]`
    } else out += char
  }
  return compile(out)
}
