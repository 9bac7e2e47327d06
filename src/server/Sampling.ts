/** What a request says of sampling, as the engine takes it. */
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Seed from "../Seed.ts"
import type { GenerateRequest } from "../Trainer/Native.ts"

/** The fields that the routes share, as they are on the wire. @category model */
export interface Fields {
  readonly n?: number | null
  readonly temperature?: number | null
  readonly top_p?: number | null
  readonly top_k?: number | null
  readonly min_p?: number | null
  readonly seed?: number | null
  readonly stop?: string | ReadonlyArray<string> | null
  readonly stop_token_ids?: ReadonlyArray<number> | null
  readonly skip_special_tokens?: boolean | null
}

/** Settled for every choice of one request. @category model */
export interface Sampling {
  readonly choices: number
  readonly stops: ReadonlyArray<string>
  readonly stopTokenIds: ReadonlySet<number>
  readonly endIds: ReadonlySet<number>
  readonly skipSpecialTokens: boolean
  readonly request: Omit<GenerateRequest, "promptIds" | "maxTokens" | "seed">
  /** of choice number `index` of prompt number `prompt` */
  readonly seedOf: (prompt: number, index: number) => number
}

const isSeed = (seed: number) => seed >= 0 && seed <= 0xffff_ffff

/**
 * Every prompt of a request is sampled with the seed that was given, so that it yields what it does alone; its further
 * choices draw from seeds that follow. -1 gives none, as in vLLM; what an engine cannot hold is mixed into what it can.
 */
const seeds = (seed: number | null | undefined): Effect.Effect<Sampling["seedOf"]> => {
  if (seed == null || seed === -1) {
    return Effect.map(Random.nextIntBetween(0, 2 ** 32), (fresh) => (prompt, index) => Seed.of(fresh, prompt, index))
  }
  const first = isSeed(seed) ? seed : Seed.of("request", seed)
  return Effect.succeed((_, index) => (index === 0 ? first : Seed.of(first, index)))
}

/** `endIds` are the model's own. @category conversions */
export const of = (fields: Fields, endIds: Iterable<number>): Effect.Effect<Sampling> =>
  Effect.map(seeds(fields.seed), (seedOf) => {
    const stopTokenIds = new Set(fields.stop_token_ids ?? [])
    const ends = new Set([...endIds, ...stopTokenIds])
    return {
      choices: fields.n ?? 1,
      stops: fields.stop == null ? [] : typeof fields.stop === "string" ? [fields.stop] : fields.stop,
      stopTokenIds,
      endIds: ends,
      skipSpecialTokens: fields.skip_special_tokens ?? true,
      request: {
        temperature: fields.temperature ?? 1,
        topP: fields.top_p ?? 1,
        topK: Math.max(0, fields.top_k ?? 0),
        minP: fields.min_p ?? 0,
        stopTokenIds: Int32Array.from(ends)
      },
      seedOf
    }
  })
