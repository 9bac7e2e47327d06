/** Every renderer by its name, with what can be chosen about it. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { RendererError, type RendererService } from "../Renderer.ts"
import type { TokenizerService } from "../Tokenizer.ts"
import * as ChatMl from "./ChatMl.ts"
import * as DeepSeek from "./DeepSeek.ts"
import * as Default from "./Default.ts"
import * as Glm5 from "./Glm5.ts"
import * as Glm45 from "./Glm45.ts"
import * as GptOss from "./GptOss.ts"
import * as Kimi from "./Kimi.ts"
import * as Llama3 from "./Llama3.ts"
import * as MiniMax from "./MiniMax.ts"
import * as PrimeQwen3 from "./PrimeQwen3.ts"
import * as Qwen3 from "./Qwen3.ts"
import * as Qwen35 from "./Qwen35.ts"

/** What a renderer is made of; only "default" looks at the source. @category model */
export interface Parts {
  readonly tokenizer: TokenizerService
  readonly source: Default.Source | undefined
}

type Made = Either.Either<RendererService, RendererError>

interface Entry {
  readonly make: (parts: Parts, config: unknown) => Made
}

/** Schema's empty struct takes any object. */
const NoOptions = Schema.Struct({}).pipe(
  Schema.filter((given) => {
    const [key] = Object.keys(given)
    return key === undefined ? undefined : { path: [key], message: "is unexpected, this renderer has no options" }
  })
)

/** An unknown key is refused with its name, like a wrong value. */
const entry = <A, I>(
  name: string,
  config: Schema.Schema<A, I>,
  make: (parts: Parts, options: A) => Made
): readonly [string, Entry] => {
  const decode = Schema.decodeUnknownEither(config, { onExcessProperty: "error", errors: "all" })
  return [
    name,
    {
      make: (parts, given) =>
        Either.flatMap(
          Either.mapLeft(decode(given), (error) => {
            const issues = ParseResult.ArrayFormatter.formatErrorSync(error)
            const reason = issues.map(({ message, path }) => `${path.join(".")}: ${message}`).join("; ")
            return new RendererError({ renderer: name, reason: `its configuration is wrong: ${reason}` })
          }),
          (options) => make(parts, options)
        )
    }
  ]
}

const entries: ReadonlyMap<string, Entry> = new Map([
  entry("chatml", NoOptions, ({ tokenizer }) => ChatMl.make(tokenizer)),
  entry("qwen3", Qwen3.Config, ({ tokenizer }, options) => Qwen3.make(tokenizer, options)),
  entry("prime-qwen3", NoOptions, ({ tokenizer }) => PrimeQwen3.make(tokenizer)),
  entry("qwen3.5", Qwen35.Config.omit("version"), ({ tokenizer }, options) =>
    Qwen35.make(tokenizer, { ...options, version: "3.5" })
  ),
  entry("qwen3.6", Qwen35.Config.omit("version"), ({ tokenizer }, options) =>
    Qwen35.make(tokenizer, { ...options, version: "3.6" })
  ),
  entry("llama-3", Llama3.Config, ({ tokenizer }, options) => Llama3.make(tokenizer, options)),
  entry("gpt-oss", GptOss.Config, ({ tokenizer }, options) => GptOss.make(tokenizer, options)),
  entry("deepseek-v3", NoOptions, ({ tokenizer }) => DeepSeek.make(tokenizer, { version: "v3" })),
  entry("deepseek-r1", NoOptions, ({ tokenizer }) => DeepSeek.make(tokenizer, { version: "r1" })),
  entry("glm-4.5", Glm45.Config, ({ tokenizer }, options) => Glm45.make(tokenizer, options)),
  entry("glm-5", Glm5.Config.omit("version"), ({ tokenizer }, options) =>
    Glm5.make(tokenizer, { ...options, version: "5" })
  ),
  entry("glm-5.1", Glm5.Config.omit("version"), ({ tokenizer }, options) =>
    Glm5.make(tokenizer, { ...options, version: "5.1" })
  ),
  entry("kimi-k2", Kimi.Config, ({ tokenizer }, options) => Kimi.make(tokenizer, options)),
  entry("minimax-m2", MiniMax.Config, ({ tokenizer }, options) => MiniMax.make(tokenizer, options)),
  entry("default", Default.Config, ({ source, tokenizer }, options) =>
    source === undefined
      ? Either.left(new RendererError({ renderer: "default", reason: "the model has no chat template to render with" }))
      : Default.make(tokenizer, source, options)
  )
])

/** @category getters */
export const names: ReadonlyArray<string> = [...entries.keys()]

/** A renderer by name; Left when there is none, the configuration is wrong or the vocabulary is another. @category constructors */
export const make = (name: string, parts: Parts, config: unknown = {}): Made => {
  const found = entries.get(name)
  const known = `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`
  return found === undefined
    ? Either.left(new RendererError({ renderer: name, reason: `there is no such renderer; choose ${known}` }))
    : found.make(parts, config)
}
