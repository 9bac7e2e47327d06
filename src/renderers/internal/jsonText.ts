/** Reads JSON as text: what stands inside a string, and the exact spelling of a member, digits and spaces included. */

/** Follows a JSON text as it arrives. @category model */
export interface StringScanner {
  readonly push: (text: string) => void
  readonly inString: () => boolean
}

/** @category constructors */
export const makeStringScanner = (): StringScanner => {
  let inString = false
  let escaped = false
  return {
    push: (text) => {
      for (const character of text) {
        if (escaped) escaped = false
        else if (inString && character === "\\") escaped = true
        else if (character === '"') inString = !inString
      }
    },
    inString: () => inString
  }
}

/** What is told of a JSON object while it arrives; only its own members, not those inside of them. @category model */
export interface MemberEvents {
  /** a piece of the value of the member `key`, as it was written, without the white space around the value */
  readonly value: (key: string, text: string) => void
  readonly end: (key: string) => void
}

const isSpace = (character: string) => /^\s$/.test(character)

/** Follows an object and tells of its members; of text that is no JSON it tells what it can make of it. @category constructors */
export const makeMemberScanner = (on: MemberEvents): { readonly push: (text: string) => void } => {
  let depth = 0
  let inString = false
  let escaped = false
  /** spelling of a key, while it arrives and until its value does */
  let key: string | undefined
  let place: "key" | "colon" | "value" | "done" = "key"
  let piece = ""

  const flush = () => {
    if (piece !== "" && key !== undefined && place === "value") on.value(key, piece)
    piece = ""
  }
  const end = () => {
    flush()
    if (key !== undefined && place === "value") on.end(key)
    key = undefined
    place = "done"
  }
  const pushString = (character: string) => {
    if (place === "value") piece += character
    else if (key !== undefined) key += character
    if (escaped) escaped = false
    else if (character === "\\") escaped = true
    else if (character === '"') {
      inString = false
      if (depth !== 1) return
      if (place === "value") end()
      else if (key !== undefined) {
        key = unquoted(key)
        place = "colon"
      }
    }
  }
  const pushPlain = (character: string) => {
    const isOwn = depth === 1
    if (character === "{" || character === "[") depth++
    else if (character === "}" || character === "]") depth--
    if (character === '"') inString = true
    if (place === "value") {
      if (isOwn && (character === "," || depth === 0)) end()
      else if (!isOwn || !isSpace(character)) {
        piece += character
        if (!isOwn && depth === 1) end()
      }
    } else if (isOwn && place === "colon" && character === ":") place = "value"
    else if (isOwn && place === "key" && character === '"') key = character
    if (isOwn && character === ",") place = "key"
  }
  return {
    push: (text) => {
      for (const character of text) {
        if (inString) pushString(character)
        else pushPlain(character)
      }
      flush()
    }
  }
}

/** A JSON string's own text; what is no string stays as it is. */
const unquoted = (text: string): string => {
  const characters: Array<string> = []
  const inner = text.slice(1, -1)
  if (!inner.includes("\\")) return inner
  const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f" }
  for (let at = 0; at < inner.length; at++) {
    if (inner[at] !== "\\") characters.push(inner[at]!)
    else if (inner[++at] === "u") {
      characters.push(String.fromCharCode(Number.parseInt(inner.slice(at + 1, at + 5), 16)))
      at += 4
    } else characters.push(escapes[inner[at] ?? ""] ?? inner[at] ?? "")
  }
  return characters.join("")
}

/**
 * The members of a JSON object in their order, each as the text it was written with. The text must be valid JSON.
 *
 * @category reading
 */
export const memberTexts = (object: string): ReadonlyArray<readonly [key: string, text: string]> => {
  const members: Array<readonly [string, string]> = []
  let text = ""
  const scanner = makeMemberScanner({
    value: (_, piece) => {
      text += piece
    },
    end: (key) => {
      members.push([key, text])
      text = ""
    }
  })
  scanner.push(object)
  return members
}

/**
 * A JSON text with the spaces of Python's `json.dumps`, its strings spelled anew and its numbers as they were written.
 *
 * @category conversions
 */
export const respaced = (json: string): string => {
  const parts = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? []
  return parts
    .map((part) => {
      if (part === ",") return ", "
      if (part === ":") return ": "
      return part.startsWith('"') ? JSON.stringify(JSON.parse(part)) : part
    })
    .join("")
}
