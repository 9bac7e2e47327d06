/** A conversation as the model reads it. */
import * as Effect from "effect/Effect"
import { inWords } from "../internal/inWords.ts"
import type { Message, ToolSpec } from "../Message.ts"
import type { RendererService } from "../Renderer.ts"
import { type ApiError, invalid } from "./ApiError.ts"
import type { Model } from "./Models.ts"

/** The renderer of a model, or why there is no chat with it. @category getters */
export const rendererOf = ({ format, id }: Model): Effect.Effect<RendererService, ApiError> =>
  Effect.mapError(format.renderer, ({ reason }) =>
    invalid(`${JSON.stringify(id)} takes no conversations, only completions: ${reason}`, { param: "model" })
  )

/** Token ids of a conversation. @category conversions */
export const render = (
  renderer: RendererService,
  messages: ReadonlyArray<Message>,
  options: { readonly tools: ReadonlyArray<ToolSpec>; readonly addGenerationPrompt: boolean }
): Effect.Effect<Int32Array, ApiError> =>
  Effect.try({
    try: () => renderer.render(messages, options).tokenIds,
    catch: (cause) => invalid(`messages: ${inWords(cause)}`, { param: "messages" })
  })
