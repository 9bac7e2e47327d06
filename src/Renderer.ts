/** Messages to the exact token ids a model reads, and sampled ids back to a message. */
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import type { AssistantMessage, Message, ToolSpec } from "./Message.ts"

/** Token ids with, for every token, the message it belongs to and what part it plays. All streams have one length. @category model */
export interface Rendered {
  readonly tokenIds: Int32Array
  /** index of the message, −1 for scaffold that belongs to none */
  readonly messageIndices: Int32Array
  /** 1 where a model would have produced the token: what supervised fine-tuning trains */
  readonly sampledMask: Uint8Array
  /** 1 on the body of a message, 0 on template scaffold; in an assistant message it equals `sampledMask` */
  readonly isContent: Uint8Array
}

/** How well formed a tool call is; only "ok" is one. @category model */
export type ToolCallStatus =
  | "ok"
  | "invalid_json"
  | "unclosed_block"
  | "missing_name"
  | "malformed_structure"
  | "unknown_tool"

/** One attempt of the model at a tool call, well formed or not. @category model */
export interface ParsedToolCall {
  readonly status: ToolCallStatus
  /** what stood between the markers */
  readonly raw: string
  readonly name: string | undefined
  /** JSON text as the model wrote it */
  readonly arguments: string | undefined
}

/** A sampled turn as a message, and how well it was formed. @category model */
export interface Parsed {
  readonly message: AssistantMessage
  readonly toolCalls: ReadonlyArray<ParsedToolCall>
  /** undefined when there was no reasoning at all */
  readonly reasoningComplete: boolean | undefined
  /** what ended the turn: the turn's close token, another end token, or nothing (a length limit) */
  readonly terminatedBy: "stop" | "eos" | undefined
}

/** What is rendered beside the messages. @category model */
export interface RenderOptions {
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  readonly addGenerationPrompt?: boolean | undefined
}

/** Renders conversations, parses sampled turns, and extends turns that were sampled. @category model */
export interface RendererService {
  readonly name: string
  readonly stopTokenIds: ReadonlyArray<number>
  /** @throws RendererError when the format has no way to say a message, or there is none */
  readonly render: (messages: ReadonlyArray<Message>, options?: RenderOptions) => Rendered
  readonly parse: (
    completionIds: Int32Array,
    options?: { readonly tools?: ReadonlyArray<ToolSpec> | undefined; readonly promptIds?: Int32Array | undefined }
  ) => Parsed
  /** Extends the exact ids of the turns so far with new messages, or undefined when only a full render is right. */
  readonly bridge: (
    promptIds: Int32Array,
    completionIds: Int32Array,
    messages: ReadonlyArray<Message>,
    options?: { readonly tools?: ReadonlyArray<ToolSpec> | undefined }
  ) => Rendered | undefined
}

/** The chat format of the policy. @category tags */
export class Renderer extends Context.Tag("primerl/Renderer")<Renderer, RendererService>() {}

/** A format that does not fit the tokenizer or the messages, or one that nobody knows. @category errors */
export class RendererError extends Data.TaggedError("RendererError")<{
  readonly renderer: string
  readonly reason: string
}> {
  override get message() {
    return `renderer ${this.renderer}: ${this.reason}`
  }
}
