/** A small vocabulary with reasoning and tool markers, and ways to write completions for it. */
import * as Either from "effect/Either"
import type { Rendered } from "../../src/Renderer.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import { makeTokenizer, thinkingSpecials } from "../tokenizer/files.ts"

export const tokenizer = makeTokenizer({
  specials: [...thinkingSpecials, "<tool_response>", "</tool_response>"],
  words: ["user", "assistant", "system", "tool"],
  merges: [
    ["\n", "\n"],
    ["h", "i"],
    ["h", "e"],
    ["l", "l"],
    ["he", "ll"],
    ["hell", "o"]
  ]
})
export const plain = makeTokenizer({ words: ["user", "assistant", "system"] })

export const chatml = Either.getOrThrow(ChatMl.make(tokenizer))
export const plainChatml = Either.getOrThrow(ChatMl.make(plain))

const markers = /(<\|?\/?[a-z_]+\|?>)/

/** Ids in which every marker that is spelled is its special token, as a model samples it. */
export const ids = (text: string, by = tokenizer): Int32Array =>
  Int32Array.from(text.split(markers).flatMap((part) => by.special(part) ?? [...by.encode(part).ids]))

/** The text of the tokens where a stream holds a value. */
export const textWhere = (rendered: Rendered, stream: ArrayLike<number>, value: number, by = tokenizer): string =>
  by.decode(rendered.tokenIds.filter((_, at) => stream[at] === value))

export const weather = {
  name: "get_weather",
  description: "Return the weather for a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] }
}
