/** A turn as OpenAI's chat clients read it: whole, or as chunks. */
import type { ToolCall } from "../../Message.ts"
import type { Completion } from "../../Session.ts"
import { json } from "../../wire/ApiError.ts"
import * as Logprobs from "../../wire/Logprobs.ts"
import * as Sse from "../../wire/Sse.ts"
import type { Identity, Writer } from "../Dialect.ts"
import * as Said from "../Said.ts"
import type { ChatBody } from "./ChatBody.ts"

const callOf = ({ arguments: text, id, name }: ToolCall) => ({
  id,
  type: "function",
  function: { name, arguments: text }
})

const finishReason = ({ finishReason }: Completion, calls: number) =>
  finishReason === "stop" && calls > 0 ? "tool_calls" : finishReason

const usage = ({ promptTokens, tokenIds }: Completion) => ({
  prompt_tokens: promptTokens,
  completion_tokens: tokenIds.length,
  total_tokens: promptTokens + tokenIds.length
})

const logprobs = (body: ChatBody, { spelling }: Identity, { logprobs, tokenIds }: Completion) =>
  body.logprobs === true
    ? {
        content: Logprobs.chatContent(
          Array.from(tokenIds, (id, at) => ({ id, logprob: logprobs[at]! })),
          { spelling, candidates: body.top_logprobs ?? 0 }
        ),
        refusal: null
      }
    : null

const head = ({ created, id, model }: Identity, object: string) => ({ id: `chatcmpl-${id}`, object, created, model })

/** @category answers */
export const whole =
  (body: ChatBody) =>
  (identity: Identity, said: ReadonlyArray<Said.Part>, completion: Completion): object => {
    const content = Said.content(said)
    const reasoning = Said.reasoning(said)
    const calls = Said.calls(said)
    return {
      ...head(identity, "chat.completion"),
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: content === "" && calls.length > 0 ? null : content,
            refusal: null,
            ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
            ...(calls.length === 0 ? {} : { tool_calls: calls.map(callOf) })
          },
          logprobs: logprobs(body, identity, completion),
          finish_reason: finishReason(completion, calls.length)
        }
      ],
      usage: usage(completion)
    }
  }

/** @category answers */
export const writer =
  (body: ChatBody) =>
  (identity: Identity): Writer => {
    const first = head(identity, "chat.completion.chunk")
    const withUsage = body.stream_options?.include_usage === true
    const chunk = (delta: object, more: object = {}) =>
      Sse.frame(
        JSON.stringify({
          ...first,
          choices: [{ index: 0, delta, logprobs: null, finish_reason: null, ...more }],
          ...(withUsage ? { usage: null } : {})
        })
      )
    let calls = 0
    // A call opens with its id and name; its arguments follow in a chunk of their own, as clients put them together.
    const call = ({ arguments: text, id, name }: ToolCall) => {
      const index = calls++
      const opening = { index, id, type: "function", function: { name, arguments: "" } }
      return chunk({ tool_calls: [opening] }) + chunk({ tool_calls: [{ index, function: { arguments: text } }] })
    }
    return {
      begin: () => chunk({ role: "assistant", content: "" }),
      said: (deltas) =>
        deltas
          .map((delta) => {
            switch (delta.type) {
              case "content":
                return chunk({ content: delta.text })
              case "reasoning":
                return chunk({ reasoning_content: delta.text })
              case "call":
                return call(delta.call)
              default:
                return ""
            }
          })
          .join(""),
      end: (completion) =>
        [
          chunk(
            {},
            {
              logprobs: logprobs(body, identity, completion),
              finish_reason: finishReason(completion, calls)
            }
          ),
          withUsage ? Sse.frame(JSON.stringify({ ...first, choices: [], usage: usage(completion) })) : "",
          Sse.frame("[DONE]")
        ].join(""),
      fail: (error) => Sse.frame(JSON.stringify(json(error)))
    }
  }
