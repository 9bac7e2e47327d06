/** A rendered conversation as coloured text or, without colours, as a line for each stretch of tokens of one part. */
import type { Rendering } from "../rendering.ts"
import { cut, type Style } from "./Style.ts"

const ESC = "\u001b["

/** ANSI colours of who a token is from. */
const roles: Readonly<Record<string, number>> = { system: 33, user: 36, assistant: 32, tool: 35, prompt: 34 }

// biome-ignore lint/suspicious/noControlCharactersInRegex: what a terminal would obey is shown, not sent
const control = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g

const shown = (text: string): string =>
  text.replace(control, (found) => `\\x${found.charCodeAt(0).toString(16).padStart(2, "0")}`)

/** One token, and what it is a part of. @category model */
export interface Token {
  readonly id: number
  /** what it adds to the text; a character that is spread over tokens comes with its last one */
  readonly text: string
  readonly message: number
  readonly role: string
  readonly isContent: boolean
  readonly isSampled: boolean
}

/** @category conversions */
export const tokensOf = ({ messages, rendered, tokenizer }: Rendering): ReadonlyArray<Token> => {
  const decoder = tokenizer.decoder()
  const { isContent, messageIndices, sampledMask, tokenIds } = rendered
  const texts = [...tokenIds].map((id) => decoder.push(id))
  const rest = decoder.flush()
  return [...tokenIds].map((id, at) => {
    const message = messageIndices[at]!
    return {
      ...{ id, message, role: messages[message]?.role ?? "prompt" },
      text: texts[at]! + (at === tokenIds.length - 1 ? rest : ""),
      isContent: isContent[at] === 1,
      isSampled: sampledMask[at] === 1
    }
  })
}

/** Scaffold is dim, bodies are plain, and what a model would have sampled is bold; every other token is underlined. */
const paintToken = ({ isContent, isSampled, role, text }: Token, isOdd: boolean, style: Style): string => {
  const codes = [roles[role] ?? roles.prompt!, ...(isSampled ? [1] : isContent ? [] : [2]), ...(isOdd ? [4] : [])]
  const breakMark = style.unicode ? "⏎" : "\\n"
  // a line's own colours end with the line, so that pagers keep them apart
  return shown(text)
    .split("\n")
    .map((line, index, lines) => {
      const part = index < lines.length - 1 ? line + breakMark : line
      return part === "" ? "" : `${ESC}${codes.join(";")}m${part}${ESC}0m`
    })
    .join("\n")
}

const painted = (tokens: ReadonlyArray<Token>, style: Style): string =>
  `${tokens.map((token, at) => paintToken(token, at % 2 === 1, style)).join("")}\n`

const partOf = ({ isContent, isSampled }: Token): string =>
  isSampled ? (isContent ? "sampled" : "sampled marker") : isContent ? "content" : "scaffold"

/** Tokens that stand together and are of one message and one part. */
const stretches = (tokens: ReadonlyArray<Token>) => {
  const found: Array<{ readonly first: Token; readonly at: number; count: number; text: string }> = []
  for (const [at, token] of tokens.entries()) {
    const last = found.at(-1)
    if (last !== undefined && last.first.message === token.message && partOf(last.first) === partOf(token)) {
      last.count++
      last.text += token.text
    } else found.push({ first: token, at, count: 1, text: token.text })
  }
  return found
}

const listed = (tokens: ReadonlyArray<Token>, columns: number): string =>
  stretches(tokens)
    .map(({ at, count, first, text }) => {
      const message = first.message < 0 ? "-" : String(first.message)
      const head = `${String(at).padStart(6)} ${message.padStart(3)} ${first.role.padEnd(9)} ${partOf(first).padEnd(14)} ${String(count).padStart(5)}`
      return `${cut(`${head}  ${shown(JSON.stringify(text))}`, columns)}\n`
    })
    .join("")

const header = `${"token".padStart(6)} ${"msg".padStart(3)} ${"role".padEnd(9)} ${"part".padEnd(14)} ${"count".padStart(5)}  text\n`

const legend = (style: Style): string => {
  const sample = (name: string, codes: ReadonlyArray<number>) => `${ESC}${codes.join(";")}m${name}${ESC}0m`
  const names = Object.entries(roles).map(([role, code]) => sample(role, [code]))
  const parts = [sample("scaffold", [2]), "content", sample("sampled", [1])]
  const token = `${sample("underlined", [4])}: every other token`
  return `${[names.join(" "), parts.join(" "), token].join(style.unicode ? "  ·  " : "  |  ")}\n`
}

const counts = (tokens: ReadonlyArray<Token>): string => {
  const byRole = new Map<string, number>()
  for (const { role } of tokens) byRole.set(role, (byRole.get(role) ?? 0) + 1)
  const content = tokens.filter(({ isContent }) => isContent).length
  const sampled = tokens.filter(({ isSampled }) => isSampled).length
  const each = [...byRole].map(([role, count]) => `${role} ${count}`).join(", ")
  return `${tokens.length} tokens (${each}); content ${content}, sampled ${sampled}\n`
}

const driftText = ({ drift, tokenizer }: Rendering): string => {
  if (drift.kind === "none") return "drift: none, the tokens are those of the model's own template\n"
  if (drift.kind === "unknown") return `drift: not known, ${drift.reason}\n`
  const quoted = (ids: ReadonlyArray<number>) =>
    ids.length === 0 ? "nothing" : shown(JSON.stringify(cut(tokenizer.decode(ids), 60)))
  const { first, here, template } = drift
  return (
    `drift: from token ${first} on, ${here.length} tokens stand for ${template.length} of the model's own template\n` +
    `  here      ${quoted(here)}\n  template  ${quoted(template)}\n`
  )
}

/** @category rendering */
export const whole = (rendering: Rendering, style: Style, columns: number): string => {
  const tokens = tokensOf(rendering)
  const body = style.colour ? `${painted(tokens, style)}\n${legend(style)}` : `${header}${listed(tokens, columns)}\n`
  return `${body}renderer ${rendering.renderer} (by ${rendering.matchedBy})\n${counts(tokens)}${driftText(rendering)}`
}

/** For programs. @category conversions */
export const documentOf = (rendering: Rendering): object => ({
  renderer: rendering.renderer,
  matchedBy: rendering.matchedBy,
  drift: rendering.drift,
  tokens: tokensOf(rendering)
})
