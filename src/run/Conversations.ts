/** What supervised fine-tuning reads: an environment's demonstrations, or the lines of a JSONL file, epoch after epoch. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { SftConfig } from "../Config.ts"
import { reasonInWords } from "../internal/FileWords.ts"
import * as Wire from "../internal/RolloutWire.ts"
import * as Seed from "../Seed.ts"
import * as Environments from "./Environments.ts"

/** @category errors */
export class DataError extends Data.TaggedError("DataError")<{ readonly file: string; readonly reason: string }> {
  override get message() {
    return `${this.file}: ${this.reason}`
  }
}

const Line = Schema.parseJson(Schema.Struct({ messages: Schema.NonEmptyArray(Wire.Message) }))

const keysOf: Readonly<Record<string, ReadonlyArray<string>>> = {
  system: ["role", "content"],
  user: ["role", "content"],
  assistant: ["role", "content", "reasoningContent", "toolCalls"],
  tool: ["role", "content", "toolCallId", "name"]
}
const callKeys = ["id", "name", "arguments"]

const camel = (key: string) => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

const unknownIn = (value: object, known: ReadonlyArray<string>): string | undefined => {
  const key = Object.keys(value).find((name) => !known.includes(name))
  if (key === undefined) return undefined
  return `the key "${key}" is not one of ${known.join(", ")}${known.includes(camel(key)) ? `; write ${camel(key)}` : ""}`
}

/** Where a line's messages have a key that would be passed over: what it says would not be learned. */
const unknownKey = (line: string): string | undefined => {
  const parsed = Either.getOrUndefined(Either.try((): unknown => JSON.parse(line)))
  const list = (value: unknown, key: string): ReadonlyArray<object> =>
    Predicate.hasProperty(value, key) && Array.isArray(value[key]) ? value[key].filter(Predicate.isRecord) : []
  for (const [index, message] of list(parsed, "messages").entries()) {
    const known = Predicate.hasProperty(message, "role") ? keysOf[String(message.role)] : undefined
    const problem =
      (known && unknownIn(message, known)) ??
      list(message, "toolCalls")
        .map((call) => unknownIn(call, callKeys))
        .find((one) => one !== undefined)
    if (problem !== undefined) return `messages.${index}: ${problem}`
  }
  return undefined
}

/** The first thing that is wrong with a line: where in it, and what, without the schema around it. */
const inWords = (error: ParseResult.ParseError) => {
  const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
  const issue = issues.reduce((deepest, one) => (one.path.length > deepest.path.length ? one : deepest), issues[0]!)
  const message = issue.message.length > 200 ? `${issue.message.slice(0, 200)}…` : issue.message
  return issue.path.length === 0 ? message : `${issue.path.join(".")}: ${message}`
}

/** Every conversation of a file; the first line that is none is an error with its number. */
const read = (file: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(
      fs.readFileString(file),
      (cause) => new DataError({ file, reason: reasonInWords(cause) })
    )
    const conversations: Array<Environments.Conversation> = []
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "") continue
      const unknown = unknownKey(line)
      if (unknown !== undefined) return yield* new DataError({ file, reason: `line ${index + 1}: ${unknown}` })
      const { messages } = yield* Effect.mapError(
        Schema.decodeUnknown(Line)(line),
        (cause) => new DataError({ file, reason: `line ${index + 1} is no {"messages": […]}: ${inWords(cause)}` })
      )
      conversations.push(messages)
    }
    return conversations.length > 0 ? conversations : yield* new DataError({ file, reason: "it holds no conversation" })
  })

/** Each epoch in an order of its own that follows from the seed. */
const epochs = (conversations: ReadonlyArray<Environments.Conversation>, seed: number) =>
  Stream.iterate(0, (epoch) => epoch + 1).pipe(
    Stream.flatMap((epoch) =>
      Stream.fromIterable(Seed.permutation(conversations.length, Seed.of(seed, "epoch", epoch)))
    ),
    Stream.map((index) => conversations[index]!)
  )

/** @category constructors */
export const of = (data: SftConfig["data"], seed: number) =>
  Effect.gen(function* () {
    if (data.env !== undefined) return yield* Environments.demonstrations(data.env, seed)
    if (data.path !== undefined) return epochs(yield* read(data.path), seed)
    return yield* new DataError({ file: "[data]", reason: "neither env nor path says what to train on" })
  })
