/** What servers write when they refuse: vLLM's and OpenAI's error object, FastAPI's detail, or a proxy's page. */
import * as Either from "effect/Either"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** `{"error": {"message"}}` as of vLLM 0.10 and OpenAI, `{"message"}` of older vLLM, `{"detail"}` of FastAPI. @category schemas */
export const ErrorBody = Schema.Union(
  Schema.Struct({ error: Schema.Struct({ message: Schema.String }) }),
  Schema.Struct({ error: Schema.String }),
  Schema.Struct({ message: Schema.String }),
  Schema.Struct({ detail: Schema.String })
)

const decode = Schema.decodeUnknownOption(ErrorBody)
const decodeText = Schema.decodeUnknownOption(Schema.parseJson(ErrorBody))

/** The first words of a text, on one line. @category conversions */
export const firstWords = (text: string): string => {
  const line = text.slice(0, 2_000).replace(/\s+/g, " ").trim()
  return line.length > 300 ? `${line.slice(0, 300)}…` : line
}

const messageOf = (known: typeof ErrorBody.Type): string => {
  if ("detail" in known) return known.detail
  if ("message" in known) return known.message
  return typeof known.error === "string" ? known.error : known.error.message
}

/** What the body of a refusal says. @category conversions */
export const wordsOf = (body: string): string =>
  firstWords(Option.match(decodeText(body), { onNone: () => body, onSome: messageOf }))

/** What an answer says that is an error under a status of success; none of another answer. @category conversions */
export const errorIn = (answer: unknown): Option.Option<string> =>
  Option.map(decode(answer), (known) => firstWords(messageOf(known)))

const tooLong =
  /maximum (context|model|allowed|prompt) length|longer than the model's context length|context_length_exceeded|max_model_len/i

/** Whether a refusal says that the prompt leaves no room in the model's sequence. @category predicates */
export const saysPromptTooLong = (status: number, body: string): boolean =>
  (status === 400 || status === 413 || status === 422) && tooLong.test(body)

/** JSON, or what the text is instead. @category parsing */
export const parse = (text: string): Either.Either<unknown, string> =>
  Either.try({
    try: (): unknown => JSON.parse(text),
    catch: () => {
      if (text.trim() === "") return "an empty answer"
      if (/^\s*</.test(text)) return `a page instead of JSON, as a proxy gives: ${firstWords(text)}`
      return `an answer that is not JSON (${text.length} characters): ${firstWords(text)}`
    }
  })
