/** A chat format over bytes, where every token can be read: ids below 256 are bytes, each role has an id that opens it. */
import * as Layer from "effect/Layer"
import * as Endpoints from "../Endpoints.ts"
import type { Inference } from "../Inference.ts"
import * as Mock from "../inference/Mock.ts"
import type { Message } from "../Message.ts"
import { parserOfWhole, type Rendered, Renderer, type RendererService } from "../Renderer.ts"
import * as State from "../State.ts"
import { Tokenizer } from "../Tokenizer.ts"

const ROLES = ["system", "user", "assistant", "tool"]
/** Ends a message. @category bytes */
export const END = 260
/** The id that opens a message of a role. @category bytes */
export const roleId = (role: string) => 256 + ROLES.indexOf(role)
/** A text as ids. @category bytes */
export const bytes = (text: string) => [...new TextEncoder().encode(text)]
/** Ids as text; those of roles and ends are left out. @category bytes */
export const textOf = (ids: Iterable<number>) =>
  new TextDecoder().decode(Uint8Array.from([...ids].filter((id) => id < 256)))

const pieces = (
  messages: ReadonlyArray<Message>,
  lead: ReadonlyArray<number>,
  addGenerationPrompt: boolean
): Rendered => {
  const all: Array<readonly [id: number, message: number, content: number]> = lead.map((id) => [id, -1, 0])
  messages.forEach(({ content, role }, index) => {
    all.push([roleId(role), index, 0])
    for (const id of bytes(content ?? "")) all.push([id, index, 1])
    all.push([END, index, 0])
  })
  if (addGenerationPrompt) all.push([roleId("assistant"), -1, 0])
  return {
    tokenIds: Int32Array.from(all, ([id]) => id),
    messageIndices: Int32Array.from(all, ([, message]) => message),
    sampledMask: new Uint8Array(all.length),
    isContent: Uint8Array.from(all, ([, , content]) => content)
  }
}

const parse: RendererService["parse"] = (completionIds) => ({
  message: { role: "assistant", content: textOf(completionIds) },
  toolCalls: [],
  reasoningComplete: undefined,
  terminatedBy: completionIds.at(-1) === END ? "stop" : undefined
})

/** Renders every message as its role, its bytes and an end. @category layers */
export const layerRenderer = Layer.succeed(Renderer, {
  name: "byte-chat",
  stopTokenIds: [END],
  render: (messages, options) => pieces(messages, [], options?.addGenerationPrompt ?? false),
  parse,
  parser: parserOfWhole(parse),
  bridge: (promptIds, completionIds, messages) =>
    pieces(messages, [...promptIds, ...completionIds, ...(completionIds.at(-1) === END ? [] : [END])], true)
})

const encode = (text: string) => {
  const ids = Int32Array.from(bytes(text))
  return { ids, starts: ids.map((_, i) => i), ends: ids.map((_, i) => i + 1) }
}

/** Every byte is a token. @category layers */
export const layerTokenizer: Layer.Layer<Tokenizer> = Layer.succeed(Tokenizer, {
  vocabularySize: END + 1,
  encode,
  // the ids of roles and ends have no spelling
  encodeWithSpecials: encode,
  normalize: (text) => text,
  decode: (ids) => textOf(ids),
  decoder: () => {
    const decoder = new TextDecoder()
    return {
      push: (id) => (id < 256 ? decoder.decode(Uint8Array.of(id), { stream: true }) : ""),
      flush: () => decoder.decode()
    }
  },
  special: (content) => (content === "end" ? END : ROLES.includes(content) ? roleId(content) : undefined),
  isSpecial: (id) => id >= 256
})

/**
 * Frozen models without weights: each reads every byte and every role, and its log-probabilities follow from its name and
 * from what it is given.
 *
 * @category layers
 */
export const layerEndpoints: Layer.Layer<Endpoints.Endpoints> = Endpoints.layerOf(({ name }) =>
  Mock.make({ name, vocabularySize: END + 1, salt: name })
)

/**
 * All that a run offers to the Layers its config names, without weights, network or disk.
 *
 * @category layers
 */
export const layerProvided: Layer.Layer<Inference | State.State | Endpoints.Endpoints | Renderer | Tokenizer> =
  Layer.mergeAll(
    Mock.layerMock({ vocabularySize: END + 1 }),
    State.layer(),
    layerEndpoints,
    layerRenderer,
    layerTokenizer
  )
