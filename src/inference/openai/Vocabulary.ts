/** Whether a server reads the token ids of the policy: ids cross the wire, so another vocabulary is another text. */
import * as Effect from "effect/Effect"
import type { TokenizerService } from "../../Tokenizer.ts"
import { type Failure, isRouteMissing, unusable } from "./Failure.ts"
import type { Server } from "./Http.ts"
import type { Route } from "./Route.ts"
import * as Tokenize from "./Tokenize.ts"

/** Scripts, digits, code, spaces and an accent of its own: where tokenizers differ. */
const probe = [
  "The quick brown fox isn't jumping over 13 lazy dogs, 1234567890 times; it costs $3.50.",
  "Žluťoučký kůň, cafe\u0301, naïve façade, ΑΒΓ αβγ, Привет, мир! שלום مرحبا नमस्ते 你好，世界 こんにちは 안녕하세요 🙂👩‍👩‍👧",
  "def f(x: list[int]) -> int:\n\tif x[0] >= 0x1F:\n        return sum(i**2 for i in x)  # TODO\n\n\n  end   of it \r\n",
  'const s = a?.b ?? "c" + `d`; <div class="x">&amp;</div> \\frac{1}{2} SELECT * FROM t WHERE id=42;'
].join("\n")

/** Added tokens of a tokenizer, with their spelling. */
const specialsOf = (tokenizer: TokenizerService): ReadonlyArray<readonly [id: number, spelling: string]> =>
  Array.from({ length: tokenizer.vocabularySize }, (_, id) => id)
    .filter((id) => tokenizer.isSpecial(id))
    .map((id) => [id, tokenizer.decode([id])] as const)
    .filter(([id, spelling]) => tokenizer.special(spelling) === id)

/** Special tokens are checked by their ids: whether their spelling in a text stands for them differs between servers. */
const sameSpecials = (server: Server, model: string, tokenizer: TokenizerService): Effect.Effect<void, Failure> => {
  const specials = specialsOf(tokenizer)
  if (specials.length === 0) return Effect.void
  // some tokenizers put spaces between them
  const solid = (text: string) => text.replace(/\s/g, "")
  return Effect.flatMap(
    Tokenize.detokenize(
      server,
      model,
      specials.map(([id]) => id)
    ),
    (text) => {
      let rest = solid(text)
      for (const [id, spelling] of specials) {
        if (!rest.startsWith(solid(spelling))) {
          return Effect.fail(
            unusable(
              `${server.root} has other special tokens than the policy: token id ${id} is ${JSON.stringify(spelling)} for the policy, and it reads ${JSON.stringify(rest.slice(0, 40))}; serve a model with the policy's own tokenizer`
            )
          )
        }
        rest = rest.slice(solid(spelling).length)
      }
      return Effect.void
    }
  ).pipe(
    Effect.catchIf(isRouteMissing, () =>
      Effect.logWarning(`${server.root} has no /detokenize: special tokens were not checked`)
    )
  )
}

const differ = (server: Server, tokenizer: TokenizerService, theirs: ReadonlyArray<number>, ours: Int32Array) => {
  const at = ours.findIndex((id, i) => id !== theirs[i])
  const place = at === -1 ? ours.length : at
  const side = (id: number | undefined) =>
    id === undefined ? "the end" : `${id} ${JSON.stringify(tokenizer.decode([id]))}`
  const before = JSON.stringify(tokenizer.decode(ours.subarray(Math.max(0, place - 4), place)))
  return unusable(
    `${server.root} reads other token ids than the policy: after ${before} it reads ${theirs[place] ?? "the end"} where the policy has ${side(ours[place])}; serve a model with the policy's own tokenizer`
  )
}

const same = (server: Server, model: string, tokenizer: TokenizerService, text: string, ours: Int32Array) =>
  Effect.flatMap(Tokenize.tokenize(server, model, text), (theirs) =>
    theirs.length === ours.length && ours.every((id, i) => id === theirs[i])
      ? Effect.void
      : Effect.fail(differ(server, tokenizer, theirs, ours))
  )

/** Without a route that shows ids, all that can be seen is that the highest of them exists. */
const sizeOnly = (server: Server, model: string, tokenizer: TokenizerService, route: Route) => {
  const highest = tokenizer.vocabularySize - 1
  const tokenIds = Int32Array.of(0, highest)
  return server.post(route.path, route.score(model, tokenIds, 1)).pipe(
    Effect.flatMap((answer) => route.readScore(answer, tokenIds)),
    Effect.mapError((failure) =>
      failure.passing ? failure : unusable(`the policy's highest token id is ${highest}: ${failure.what}`)
    ),
    Effect.zipRight(
      Effect.logWarning(
        `${server.root} has no /tokenize: of its vocabulary only the size was checked. Make sure that ${model} has the policy's tokenizer`
      )
    )
  )
}

/** Fails where the server reads another id than the policy's tokenizer, and shows the first. @category checking */
export const check = (
  server: Server,
  options: { readonly model: string; readonly tokenizer: TokenizerService; readonly route: Route }
): Effect.Effect<void, Failure> => {
  const { model, route, tokenizer } = options
  return same(server, model, tokenizer, probe, tokenizer.encode(probe).ids).pipe(
    Effect.zipRight(sameSpecials(server, model, tokenizer)),
    Effect.catchIf(isRouteMissing, () => sizeOnly(server, model, tokenizer, route))
  )
}
