/**
 * Tokenizer files carry regular expressions in Oniguruma's dialect. A pattern is read into a tree, or refused: a near miss
 * would silently give other token ids. What is read is what an automaton can match in one pass: no anchor at the front, no
 * look behind, no look ahead further than one character.
 */
import * as Either from "effect/Either"

/** A set of code points; two of the same key are the same set. @category model */
export interface CharSet {
  readonly key: string
  readonly has: (codePoint: number) => boolean
}

/** @category model */
export type Node =
  | { readonly kind: "char"; readonly set: CharSet }
  | { readonly kind: "sequence"; readonly items: ReadonlyArray<Node> }
  /** the first option that matches is taken, as written, not the longest */
  | { readonly kind: "choice"; readonly options: ReadonlyArray<Node> }
  | {
      readonly kind: "repeat"
      readonly item: Node
      readonly min: number
      readonly max: number
      readonly lazy: boolean
    }
  /** takes nothing: the next character is in the set, or, where `end` says so, there is none */
  | { readonly kind: "next"; readonly set: CharSet; readonly end: boolean }

const deepest = 100
const mostRepeats = 1000

const compiled = (source: string): RegExp | undefined =>
  Either.getOrUndefined(Either.try(() => new RegExp(`^(?:${source})$`, "u")))

const setOf = (source: string): CharSet | undefined => {
  const expression = compiled(source)
  return expression && { key: source, has: (point) => expression.test(String.fromCodePoint(point)) }
}

const not = ({ has, key }: CharSet): CharSet => ({ key: `!(${key})`, has: (point) => !has(point) })

const joined = (sets: ReadonlyArray<CharSet>): CharSet =>
  sets.length === 1
    ? sets[0]!
    : {
        key: `(${sets.map(({ key }) => key).join("|")})`,
        has: (point) => sets.some(({ has }) => has(point))
      }

const shared = (sets: ReadonlyArray<CharSet>): CharSet =>
  sets.length === 1
    ? sets[0]!
    : {
        key: `(${sets.map(({ key }) => key).join("&")})`,
        has: (point) => sets.every(({ has }) => has(point))
      }

const between = (first: number, last: number): CharSet => ({
  key: `${first}-${last}`,
  has: (point) => point >= first && point <= last
})

/** The code points that are equal to this one without regard to case, by simple case folding. */
const variants = (point: number): ReadonlyArray<number> => {
  const char = String.fromCodePoint(point)
  const [lower, upper] = [char.toLowerCase(), char.toUpperCase()]
  if (lower === upper) return []
  return [lower, upper, upper.toLowerCase(), lower.toUpperCase()]
    .filter(
      (other) => [...other].length === 1 && new RegExp(`^\\u{${other.codePointAt(0)!.toString(16)}}$`, "iu").test(char)
    )
    .map((other) => other.codePointAt(0)!)
}

const folded = ({ has, key }: CharSet): CharSet => ({
  key: `i(${key})`,
  has: (point) => has(point) || variants(point).some(has)
})

const word = "[\\p{L}\\p{M}\\p{N}\\p{Pc}]"
/** what the classes of the dialect mean; `\s` is Unicode's white space, which is not that of JavaScript */
const classes: Readonly<Record<string, CharSet>> = {
  s: setOf("\\p{White_Space}")!,
  S: not(setOf("\\p{White_Space}")!),
  d: setOf("\\p{Nd}")!,
  D: not(setOf("\\p{Nd}")!),
  w: setOf(word)!,
  W: not(setOf(word)!)
}
const anything: CharSet = { key: "any", has: () => true }
const newline = between(10, 10)
const controls: Readonly<Record<string, number>> = { r: 13, n: 10, t: 9, f: 12, v: 11 }

/** Reads a pattern; the left side says what is not supported in it. @category reading */
export const parse = (source: string): Either.Either<Node, string> => {
  let problem: string | undefined
  let at = 0
  const refuse = (what: string): CharSet => {
    problem ??= `${what} is not supported in a pattern`
    at = source.length
    return anything
  }
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    const found = pattern.exec(source)?.[0]
    if (found !== undefined) at += found.length
    return found
  }
  const point = (): number => {
    const found = source.codePointAt(at)!
    at += found > 0xffff ? 2 : 1
    return found
  }

  /** what a backslash begins: a single code point, or a set */
  const escape = (): number | CharSet => {
    const property = take(/\\[pP]\{\^?[\w=]+\}/y)
    if (property !== undefined) {
      const name = property.slice(3, -1).replace("^", "")
      const set = setOf(`\\p{${name}}`) ?? setOf(`\\p{Script=${name}}`)
      if (set === undefined) return refuse(`the property ${property}`)
      return (property[1] === "P") !== property.includes("^") ? not(set) : set
    }
    const braced = take(/\\x\{[0-9a-fA-F]{1,6}\}/y)
    const hexadecimal = braced?.slice(3, -1) ?? take(/\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})/y)?.slice(2)
    if (hexadecimal !== undefined) return Number.parseInt(hexadecimal, 16)
    at++
    const letter = source[at] ?? ""
    const known = classes[letter]
    if (known === undefined && controls[letter] === undefined && /^\w?$/.test(letter)) return refuse(`\\${letter}`)
    const literal = point()
    return known ?? controls[letter] ?? literal
  }

  const bracket = (folding: boolean, depth: number): CharSet => {
    const outside = take(/\^/y) !== undefined
    const operands: Array<CharSet> = []
    let members: Array<CharSet> = []
    let empty = true
    while (at < source.length && (empty || source[at] !== "]")) {
      empty = false
      if (take(/&&/y) !== undefined) {
        operands.push(joined(members))
        members = []
        continue
      }
      if (source[at] === "[") {
        if (/[:.=]/.test(source[at + 1] ?? "") || depth > deepest) return refuse("a class of this kind")
        at++
        members.push(bracket(folding, depth + 1))
        continue
      }
      const first = source[at] === "\\" ? escape() : point()
      if (typeof first !== "number") {
        members.push(first)
      } else if (source[at] === "-" && source[at + 1] !== "]" && at + 1 < source.length) {
        at++
        const last = source[at] === "\\" ? escape() : point()
        if (typeof last !== "number" || last < first) return refuse("a range of this kind")
        members.push(between(first, last))
      } else members.push(between(first, first))
    }
    if (source[at] !== "]") return refuse("a class without end")
    at++
    if (members.length === 0) return refuse("an empty class")
    const inside = shared([...operands, joined(members)])
    const set = folding ? folded(inside) : inside
    return outside ? not(set) : set
  }

  const onlySet = (node: Node): CharSet | undefined => {
    if (node.kind === "char") return node.set
    if (node.kind === "sequence" && node.items.length === 1) return onlySet(node.items[0]!)
    if (node.kind !== "choice") return undefined
    const sets = node.options.map(onlySet)
    return sets.every((set) => set !== undefined) ? joined(sets) : undefined
  }

  const group = (folding: boolean, depth: number): Node => {
    const opening = take(/\((?:\?(?:i:|:|=|!))?/y)!
    if (source[at] === "?" || depth > deepest) {
      return { kind: "char", set: refuse(`the group (${source.slice(at, at + 3)}`) }
    }
    const body = choice(folding || opening === "(?i:", depth + 1)
    if (source[at] !== ")") return { kind: "char", set: refuse("a group without end") }
    at++
    if (opening !== "(?=" && opening !== "(?!") return body
    const set = onlySet(body) ?? refuse("looking further than one character ahead")
    return opening === "(?=" ? { kind: "next", set, end: false } : { kind: "next", set: not(set), end: true }
  }

  const atom = (folding: boolean, depth: number): Node => {
    const char = source[at]!
    if (char === "(") return group(folding, depth)
    if (char === "\\") {
      const read = escape()
      if (typeof read !== "number") return { kind: "char", set: read }
      const set = between(read, read)
      return { kind: "char", set: folding ? folded(set) : set }
    }
    if (char === "[") {
      at++
      return { kind: "char", set: bracket(folding, depth) }
    }
    if (char === "^" || char === "*" || char === "+" || char === "?") return { kind: "char", set: refuse(char) }
    const read = point()
    if (char === "$") return { kind: "next", set: newline, end: true }
    if (char === ".") return { kind: "char", set: not(newline) }
    const set = between(read, read)
    return { kind: "char", set: folding ? folded(set) : set }
  }

  const repeated = (item: Node): Node => {
    const written = take(/[*+?]|\{\d{1,9},?\d{0,9}\}|\{,\d{1,9}\}/y)
    if (written === undefined) return item
    const [low, high] = written.slice(1, -1).split(",")
    const counted = written[0] === "{"
    const min = counted ? Number(low) : written === "+" ? 1 : 0
    const max = counted ? Number(high === undefined ? low : high || Infinity) : written === "?" ? 1 : Infinity
    if (item.kind === "next" || min > max || min > mostRepeats || (max > mostRepeats && max !== Infinity)) {
      return { kind: "char", set: refuse(`the repetition ${written}`) }
    }
    const mark = take(/[?+]/y)
    if (/[*+?]/.test(source[at] ?? "")) return { kind: "char", set: refuse("a repetition of a repetition") }
    const repeat: Node = { kind: "repeat", item, min, max, lazy: mark === "?" }
    if (mark !== "+") return repeat
    // what holds on to all that it can take ends where no more follows
    const set = counted ? undefined : onlySet(item)
    if (set === undefined) return { kind: "char", set: refuse("a possessive quantifier here") }
    const rest: Node = { kind: "next", set: not(set), end: true }
    return max === 1 ? { kind: "choice", options: [item, rest] } : { kind: "sequence", items: [repeat, rest] }
  }

  const sequence = (folding: boolean, depth: number): Node => {
    const items: Array<Node> = []
    while (at < source.length && source[at] !== "|" && source[at] !== ")") items.push(repeated(atom(folding, depth)))
    return items.length === 1 ? items[0]! : { kind: "sequence", items }
  }

  const choice = (folding: boolean, depth: number): Node => {
    const options = [sequence(folding, depth)]
    while (source[at] === "|") {
      at++
      options.push(sequence(folding, depth))
    }
    return options.length === 1 ? options[0]! : { kind: "choice", options }
  }

  const node = choice(false, 0)
  if (problem === undefined && at < source.length) refuse("a closing parenthesis that nothing opened")
  return problem === undefined ? Either.right(node) : Either.left(problem)
}
