/** A turn as clients of OpenAI's Responses read it: a response with its output, whole or event by event. */
import type { Completion } from "../../Session.ts"
import { type ApiError, json } from "../../wire/ApiError.ts"
import * as Sse from "../../wire/Sse.ts"
import type { Delta } from "../Delta.ts"
import type { Identity, Writer } from "../Dialect.ts"
import * as Said from "../Said.ts"
import type { ResponsesBody } from "./ResponsesBody.ts"
import * as Items from "./ResponsesItems.ts"

const head = (body: ResponsesBody, { created, id, model }: Identity) => ({
  id: `resp_${id}`,
  object: "response",
  created_at: created,
  model,
  error: null,
  incomplete_details: null,
  instructions: body.instructions ?? null,
  max_output_tokens: body.max_output_tokens ?? null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  reasoning: { effort: null, summary: null },
  store: false,
  temperature: null,
  text: { format: { type: "text" } },
  tool_choice: body.tool_choice ?? "auto",
  tools: body.tools ?? [],
  top_p: null,
  truncation: "disabled"
})

const usage = ({ promptTokens, tokenIds }: Completion) => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: 0 },
  output_tokens: tokenIds.length,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: promptTokens + tokenIds.length
})

/** @category answers */
export const whole =
  (body: ResponsesBody) =>
  (identity: Identity, said: ReadonlyArray<Said.Part>, completion: Completion): object => {
    const isCut = completion.finishReason === "length"
    return {
      ...head(body, identity),
      status: isCut ? "incomplete" : "completed",
      incomplete_details: isCut ? { reason: "max_output_tokens" } : null,
      output: Items.all(body, identity, said, completion),
      usage: usage(completion)
    }
  }

/** @category answers */
export const writer =
  (body: ResponsesBody) =>
  (identity: Identity): Writer => {
    let sequence = 0
    let said: ReadonlyArray<Said.Part> = []
    /** place in the output of the item that is being told */
    let open: number | undefined
    /** items that are told to their end */
    const told: Array<object> = []

    const event = (type: string, more: object) =>
      Sse.frame(JSON.stringify({ type, sequence_number: sequence++, ...more }), type)
    const place = (index: number, type: Said.Part["type"]) => ({
      item_id: Items.idOf(identity, type, index),
      output_index: index
    })

    const start = (part: Said.Part, index: number) => {
      const item = Items.begun(part, Items.idOf(identity, part.type, index))
      const added = event("response.output_item.added", { output_index: index, item })
      if (part.type === "call") return added
      const at = { ...place(index, part.type), content_index: 0 }
      return added + event("response.content_part.added", { ...at, part: Items.contentOf(part.type, "", []) })
    }
    const finish = (part: Said.Part, index: number, logprobs: ReadonlyArray<object>) => {
      const at = place(index, part.type)
      const item = Items.whole(part, at.item_id, logprobs)
      told.push(item)
      const parts: Array<string> = []
      if (part.type === "call") {
        const { arguments: json, name } = part.call
        parts.push(event("response.function_call_arguments.done", { ...at, name, arguments: json }))
      } else {
        const content = { ...at, content_index: 0 }
        if (part.type === "reasoning")
          parts.push(event("response.reasoning_text.done", { ...content, text: part.text }))
        else parts.push(event("response.output_text.done", { ...content, text: part.text, logprobs }))
        const whole = Items.contentOf(part.type, part.text, logprobs)
        parts.push(event("response.content_part.done", { ...content, part: whole }))
      }
      parts.push(event("response.output_item.done", { output_index: index, item }))
      return parts.join("")
    }
    const close = (logprobs: ReadonlyArray<object>) => {
      if (open === undefined) return ""
      const index = open
      open = undefined
      return finish(said[index]!, index, logprobs)
    }

    const one = (delta: Delta): string => {
      // What was sent as content stays sent.
      if (delta.type === "contentRevoked") return ""
      const goesOn = open !== undefined && said[open]?.type === delta.type && delta.type !== "call"
      const before = goesOn ? "" : close([])
      said = Said.add(said, [delta])
      const index = said.length - 1
      const opening = goesOn ? "" : start(said[index]!, index)
      open = index
      const at = place(index, delta.type)
      switch (delta.type) {
        case "content":
          return (
            before +
            opening +
            event("response.output_text.delta", { ...at, content_index: 0, delta: delta.text, logprobs: [] })
          )
        case "reasoning":
          return (
            before + opening + event("response.reasoning_text.delta", { ...at, content_index: 0, delta: delta.text })
          )
        case "call":
          return (
            before +
            opening +
            event("response.function_call_arguments.delta", { ...at, delta: delta.call.arguments }) +
            close([])
          )
      }
    }

    return {
      begin: () => {
        const response = { ...head(body, identity), status: "in_progress", output: [], usage: null }
        return event("response.created", { response }) + event("response.in_progress", { response })
      },
      said: (deltas) => deltas.map(one).join(""),
      end: (completion) => {
        const isText = open !== undefined && said[open]?.type === "content"
        const last = close(isText ? Items.logprobsOf(body, identity, completion) : [])
        const response = { ...whole(body)(identity, [], completion), output: told }
        return (
          last +
          event(completion.finishReason === "length" ? "response.incomplete" : "response.completed", { response })
        )
      },
      fail: (error: ApiError) => {
        const { message } = json(error).error
        const code = error.code ?? error.type
        const response = {
          ...head(body, identity),
          status: "failed",
          error: { code, message },
          output: told,
          usage: null
        }
        return event("error", { code, message, param: error.param ?? null }) + event("response.failed", { response })
      }
    }
  }
