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

/** Added tokens of a tokenizer, by spelling; one with a space in it may run into its neighbour, and is left out. */
const specialsOf = (tokenizer: TokenizerService): ReadonlyArray<readonly [string, number]> =>
  Array.from({ length: tokenizer.vocabularySize }, (_, id) => id)
    .filter((id) => tokenizer.isSpecial(id))
    .map((id) => [tokenizer.decode([id]), id] as const)
    .filter(([spelling, id]) => tokenizer.special(spelling) === id && !/\s/.test(spelling))

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
  return server.post(route.path, route.score(model, tokenIds)).pipe(
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
  const specials = specialsOf(tokenizer)
  const spelled = specials.map(([spelling]) => spelling).join("")
  return Effect.zipRight(
    same(server, model, tokenizer, probe, tokenizer.encode(probe).ids),
    specials.length === 0
      ? Effect.void
      : same(
          server,
          model,
          tokenizer,
          spelled,
          Int32Array.from(specials, ([, id]) => id)
        )
  ).pipe(
    Effect.catchIf(isRouteMissing, () => sizeOnly(server, model, tokenizer, route)),
    Effect.asVoid
  )
}
