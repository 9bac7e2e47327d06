/** `POST /tokenize` and `POST /detokenize`. */
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as Effect from "effect/Effect"
import { messagesOf, toolsOf } from "../../wire/Conversation.ts"
import { invalid } from "../ApiError.ts"
import * as Body from "../Body.ts"
import * as Conversation from "../Conversation.ts"
import { Models } from "../Models.ts"
import { DetokenizeRequest, TokenizeRequest } from "../wire/TokenRequests.ts"

const tokenize = Effect.gen(function* () {
  const body = yield* Body.read(TokenizeRequest)
  const model = yield* Effect.flatMap(Models, (models) => models.lease(body.model))
  const { maxLength, tokenizer } = model.format
  const { messages, prompt } = body
  if ((prompt == null) === (messages == null)) {
    return yield* invalid("give either prompt or messages", { param: "prompt" })
  }
  const ids =
    messages == null
      ? tokenizer.encode(prompt ?? "").ids
      : yield* Conversation.render(yield* Conversation.rendererOf(model), messagesOf({ messages }), {
          tools: toolsOf(body),
          addGenerationPrompt: body.add_generation_prompt ?? true
        })
  return HttpServerResponse.unsafeJson({
    tokens: Array.from(ids),
    count: ids.length,
    max_model_len: maxLength,
    token_strs: body.return_token_strs === true ? Array.from(ids, (id) => tokenizer.decode([id])) : null
  })
})

const detokenize = Effect.gen(function* () {
  const body = yield* Body.read(DetokenizeRequest)
  const model = yield* Effect.flatMap(Models, (models) => models.lease(body.model))
  return HttpServerResponse.unsafeJson({ prompt: model.format.tokenizer.decode(body.tokens) })
})

/** @category routes */
export const routes = HttpRouter.empty.pipe(
  HttpRouter.post("/tokenize", tokenize),
  HttpRouter.post("/detokenize", detokenize)
)
