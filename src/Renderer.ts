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
  /** the id that the model gave it, else one made of the prompt's length and the place of the call in its turn */
  readonly id: string
  readonly status: ToolCallStatus
  /** what stood between the markers */
  readonly raw: string
  /** as the model wrote it, with its markers */
  readonly source: string
  readonly name: string | undefined
  /** JSON text; where the format writes JSON it is the model's own, digits and spaces included */
  readonly arguments: string | undefined
  /** its tokens in the completion: from `start` up to and without `end` */
  readonly span: readonly [start: number, end: number]
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

/**
 * What a token of a turn brought. The events of a turn add up to what `parse` says of the same ids: texts of "content"
 * since the last "contentRevoked" to the content, those of "reasoning" to the reasoning, and a call's "toolCallArguments"
 * to the arguments of a call that is "ok".
 *
 * A call is told of as it arrives: its start once its name is known, its arguments as JSON text, piece by piece, and its
 * end with all that is known of it. Only the end says whether it is well formed; a call that never had a name has an end
 * alone. Calls that may still turn out to be drafts, because reasoning is open or may be closed yet without having been
 * opened, come when the turn ends.
 *
 * @category model
 */
export type ParseEvent =
  | { readonly type: "reasoning"; readonly text: string }
  | { readonly type: "content"; readonly text: string }
  /**
   * Takes back all content so far: it was reasoning, and follows as such. Happens only where the prompt does not say
   * whether reasoning is open, and the turn closes what it has not opened.
   */
  | { readonly type: "contentRevoked" }
  /** `index` counts the attempts of the turn, well formed or not, from 0 */
  | { readonly type: "toolCallStart"; readonly index: number; readonly id: string; readonly name: string }
  | { readonly type: "toolCallArguments"; readonly index: number; readonly text: string }
  | { readonly type: "toolCallEnd"; readonly index: number; readonly call: ParsedToolCall }
  | { readonly type: "end"; readonly terminatedBy: "stop" | "eos" }

/** What a turn is read with. @category model */
export interface ParseOptions {
  /** decide what an argument's text stands for where the format does not write JSON, and which names are known */
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  /** the exact prompt: whether it leaves reasoning open decides how the turn begins */
  readonly promptIds?: Int32Array | undefined
}

/** Reads one turn a token at a time. `RendererService.parse` is this machine, given all tokens. @category model */
export interface Parser {
  /** after the first stop token nothing more comes */
  readonly push: (id: number) => ReadonlyArray<ParseEvent>
  /** Ends the turn where it stands, with the events that this decides. */
  readonly finish: () => { readonly parsed: Parsed; readonly events: ReadonlyArray<ParseEvent> }
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
  /** A sampled turn as a message. Structure is decided by ids: text that merely spells a marker is text. */
  readonly parse: (completionIds: Int32Array, options?: ParseOptions) => Parsed
  /** The same for a turn that is still arriving. */
  readonly parser: (options?: ParseOptions) => Parser
  /**
   * Extends the exact ids of the turns so far with new messages, or undefined when only a full render is right.
   * `history` is the conversation so far with the sampled turn; a format that is known by its template alone checks
   * itself with it, and declines without.
   */
  readonly bridge: (
    promptIds: Int32Array,
    completionIds: Int32Array,
    messages: ReadonlyArray<Message>,
    options?: {
      readonly tools?: ReadonlyArray<ToolSpec> | undefined
      readonly history?: ReadonlyArray<Message> | undefined
    }
  ) => Rendered | undefined
}

/**
 * The parser of a format that can only read whole turns: it says everything at the end.
 *
 * @category constructors
 */
export const parserOfWhole =
  (parse: RendererService["parse"]): RendererService["parser"] =>
  (options) => {
    const ids: Array<number> = []
    return {
      push: (id) => {
        ids.push(id)
        return []
      },
      finish: () => {
        const parsed = parse(Int32Array.from(ids), options)
        const { message, terminatedBy, toolCalls } = parsed
        const text = (type: "content" | "reasoning", value: string | null | undefined): ReadonlyArray<ParseEvent> =>
          value === undefined || value === null || value === "" ? [] : [{ type, text: value }]
        const events: ReadonlyArray<ParseEvent> = [
          ...text("reasoning", message.reasoningContent),
          ...text("content", message.content),
          ...toolCalls.flatMap((call, index) => callEvents(call, index)),
          ...(terminatedBy === undefined ? [] : [{ type: "end" as const, terminatedBy }])
        ]
        return { parsed, events }
      }
    }
  }

const callEvents = (call: ParsedToolCall, index: number): ReadonlyArray<ParseEvent> => [
  ...(call.name === undefined ? [] : [{ type: "toolCallStart" as const, index, id: call.id, name: call.name }]),
  ...(call.arguments === undefined ? [] : [{ type: "toolCallArguments" as const, index, text: call.arguments }]),
  { type: "toolCallEnd", index, call }
]

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
