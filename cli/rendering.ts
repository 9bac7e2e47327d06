/** A conversation as a model reads it, and how that compares with the model's own template. */
import { text as textOfStream } from "node:stream/consumers"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as Schema from "effect/Schema"
import { reasonInWords } from "../src/internal/FileWords.ts"
import type { Message, ToolSpec } from "../src/Message.ts"
import { type Rendered, RendererError } from "../src/Renderer.ts"
import * as Default from "../src/renderers/Default.ts"
import * as Resolve from "../src/renderers/Resolve.ts"
import * as ToolSpecs from "../src/renderers/ToolSpecs.ts"
import { Tokenizer, type TokenizerService } from "../src/Tokenizer.ts"
import * as HuggingFace from "../src/tokenizer/HuggingFace.ts"
import * as Conversation from "../src/wire/Conversation.ts"
import { decode } from "../src/wire/Decode.ts"

/** @category model */
export interface Request {
  /** a file with messages, "-" for standard input */
  readonly file: string
  readonly model: string | undefined
  readonly tokenizer: string | undefined
  readonly renderer: string
  readonly tools: string | undefined
  readonly config: Readonly<Record<string, unknown>>
}

/** How the tokens differ from those of the model's template. @category model */
export type Drift =
  | { readonly kind: "none" }
  /** there is nothing to compare with, or the template refuses */
  | { readonly kind: "unknown"; readonly reason: string }
  | {
      readonly kind: "drift"
      /** place of the first token that differs */
      readonly first: number
      /** tokens from there up to where both are the same again, here and in the template */
      readonly here: ReadonlyArray<number>
      readonly template: ReadonlyArray<number>
    }

/** @category model */
export interface Rendering {
  readonly messages: ReadonlyArray<Message>
  readonly rendered: Rendered
  readonly tokenizer: TokenizerService
  readonly renderer: string
  readonly matchedBy: string
  readonly drift: Drift
}

/** A file that holds no conversation or no tools. @category errors */
export class ConversationError extends Data.TaggedError("ConversationError")<{
  readonly file: string
  readonly reason: string
}> {
  override get message() {
    return `${this.file === "-" ? "standard input" : this.file}: ${this.reason}`
  }
}

const shape = 'it must be a list of messages as OpenAI\'s chat has them, or {"messages": [...], "tools": [...]}'

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const readJson = (file: string) =>
  Effect.gen(function* () {
    const fail = (reason: string) => new ConversationError({ file, reason })
    const fs = yield* FileSystem.FileSystem
    const text = yield* file === "-"
      ? Effect.tryPromise({ try: () => textOfStream(process.stdin), catch: () => fail("cannot be read") })
      : Effect.flatMap(
          Effect.mapError(fs.readFile(file), (error) => fail(reasonInWords(error))),
          (bytes) =>
            Either.try({
              try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
              catch: () => fail(`is not UTF-8 text; ${shape}`)
            })
        )
    return yield* Effect.try({
      try: (): unknown => JSON.parse(text.replace(/^\ufeff/, "")),
      catch: (cause) => fail(`is not JSON (${cause instanceof Error ? cause.message : String(cause)}); ${shape}`)
    })
  })

/** Arguments that are an object instead of its text are written as text. */
const withTexts = (messages: unknown): unknown =>
  JSON.parse(JSON.stringify(messages), (key, value: unknown) =>
    key === "arguments" && isRecord(value) ? ToolSpecs.argumentsText(value) : value
  )

const conversation = (file: string) =>
  Effect.gen(function* () {
    const json = yield* readJson(file)
    const messages = Array.isArray(json) ? json : isRecord(json) ? json.messages : undefined
    if (!Array.isArray(messages)) return yield* new ConversationError({ file, reason: `has no messages; ${shape}` })
    const read = decode(Schema.Struct({ messages: Conversation.conversation.messages }), {
      messages: withTexts(messages)
    })
    if (Either.isLeft(read)) return yield* new ConversationError({ file, reason: read.left.message })
    return { messages: Conversation.messagesOf(read.right), tools: isRecord(json) ? json.tools : undefined }
  })

const toolsIn = (file: string, json: unknown) =>
  Effect.mapError(
    ToolSpecs.normalise(isRecord(json) && Array.isArray(json.tools) ? json.tools : json),
    ({ message }) => new ConversationError({ file, reason: message })
  )

const rendering = (render: () => Rendered) =>
  Effect.try({
    try: render,
    catch: (cause) =>
      cause instanceof RendererError
        ? cause
        : new RendererError({ renderer: "render", reason: cause instanceof Error ? cause.message : String(cause) })
  })

/** @category comparing */
export const compare = (here: Int32Array, template: Int32Array): Drift => {
  const shortest = Math.min(here.length, template.length)
  let first = 0
  while (first < shortest && here[first] === template[first]) first++
  if (first === here.length && first === template.length) return { kind: "none" }
  let same = 0
  while (same < shortest - first && here[here.length - 1 - same] === template[template.length - 1 - same]) same++
  return {
    ...{ kind: "drift", first, here: [...here.subarray(first, here.length - same)] },
    template: [...template.subarray(first, template.length - same)]
  }
}

const driftFrom = (
  resolved: Resolve.Resolved,
  rendered: Rendered,
  given: {
    readonly tokenizer: TokenizerService
    readonly messages: ReadonlyArray<Message>
    readonly tools: ReadonlyArray<ToolSpec> | undefined
    readonly addGenerationPrompt: boolean
    readonly config: Readonly<Record<string, unknown>>
  }
): Drift => {
  const { addGenerationPrompt, config, messages, tokenizer, tools } = given
  const { renderer, source } = resolved
  if (source === undefined) return { kind: "unknown", reason: "the model has no template" }
  if (renderer.name === "default") return { kind: "none" }
  const date = typeof config.date === "string" && /^\d{4}-\d\d-\d\d$/.test(config.date) ? { date: config.date } : {}
  const variables = typeof config.enableThinking === "boolean" ? { enable_thinking: config.enableThinking } : {}
  return Either.match(
    Either.flatMap(Default.make(tokenizer, source, { ...date, variables }), (template) =>
      Either.try({
        try: () => template.render(messages, { tools, addGenerationPrompt }),
        catch: (cause) => cause as Error
      })
    ),
    {
      onLeft: (error) => ({ kind: "unknown", reason: error.message.replace(/^renderer default: /, "") }),
      onRight: ({ tokenIds }) => compare(rendered.tokenIds, tokenIds)
    }
  )
}

/** Renders the conversation; the prompt of the next turn follows unless the last message is the assistant's. @category running */
export const render = (request: Request) =>
  Effect.gen(function* () {
    const directory = request.model ?? request.tokenizer ?? "."
    const { messages, tools: own } = yield* conversation(request.file)
    const tools =
      request.tools === undefined
        ? yield* toolsIn(request.file, own)
        : yield* Effect.flatMap(readJson(request.tools), (json) => toolsIn(request.tools!, json))
    const tokenizer = yield* HuggingFace.fromDirectory(request.tokenizer ?? directory)
    const resolved = yield* Effect.provideService(
      Resolve.resolve(directory, request.renderer, request.config),
      Tokenizer,
      tokenizer
    )
    const addGenerationPrompt = messages.at(-1)?.role !== "assistant"
    const rendered = yield* rendering(() => resolved.renderer.render(messages, { tools, addGenerationPrompt }))
    const drift = driftFrom(resolved, rendered, {
      ...{ tokenizer, messages, tools, addGenerationPrompt, config: request.config }
    })
    const { matchedBy, renderer } = resolved
    return { messages, rendered, tokenizer, renderer: renderer.name, matchedBy, drift } satisfies Rendering
  })
