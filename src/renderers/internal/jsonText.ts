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

/**
 * The members of a JSON object by name, each as the text it was written with; of equal names the last counts. The text
 * must be valid JSON.
 *
 * @category reading
 */
export const memberTexts = (object: string): ReadonlyMap<string, string> => {
  const members = new Map<string, string>()
  let depth = 0
  let name: string | undefined
  let from = 0
  const close = (end: number) => {
    if (name !== undefined) members.set(name, object.slice(from, end).trim())
    name = undefined
  }
  for (let at = 0; at < object.length; at++) {
    const character = object[at]!
    if (character === '"') {
      const start = at
      for (at++; object[at] !== '"' && at < object.length; at++) if (object[at] === "\\") at++
      if (depth === 1 && name === undefined) {
        name = String(JSON.parse(object.slice(start, at + 1)))
        from = object.indexOf(":", at) + 1
        at = from - 1
      }
    } else if (character === "{" || character === "[") depth++
    else if (character === "}" || character === "]") {
      depth--
      if (depth === 0) close(at)
    } else if (character === "," && depth === 1) close(at)
  }
  return members
}
