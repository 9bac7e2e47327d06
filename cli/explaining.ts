/** An algorithm over rollouts that a run wrote down, with the model and the teachers that it asks. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Inference, InferenceError, type InferenceService } from "../src/Inference.ts"
import * as OpenAi from "../src/inference/OpenAi.ts"
import { cores } from "../src/internal/cores.ts"
import { Renderer, RendererError } from "../src/Renderer.ts"
import { registry } from "../src/Run.ts"
import * as Policy from "../src/run/Policy.ts"
import * as State from "../src/State.ts"
import { Tokenizer, TokenizerError } from "../src/Tokenizer.ts"
import { explain } from "../src/testing/explain.ts"
import * as HuggingFace from "../src/tokenizer/HuggingFace.ts"
import type { Explained, Explaining } from "./Runs.ts"

const noPolicy =
  "no policy is known here; explain rollouts that lie in the folder of their run, or give --tokenizer DIR"

/** Text for algorithms that need none; one that does is told what is missing. */
const layerNoText = (reason: string) => {
  const noTokenizer = () => {
    throw new TokenizerError({ file: "tokenizer.json", where: "", reason })
  }
  const noRenderer = () => {
    throw new RendererError({ renderer: "none", reason })
  }
  return Layer.merge(
    Layer.succeed(Tokenizer, {
      vocabularySize: 0,
      encode: noTokenizer,
      encodeWithSpecials: noTokenizer,
      normalize: noTokenizer,
      decode: noTokenizer,
      decoder: noTokenizer,
      special: noTokenizer,
      isSpecial: noTokenizer
    }),
    Layer.succeed(Renderer, {
      name: "none",
      stopTokenIds: [],
      render: noRenderer,
      parse: noRenderer,
      parser: noRenderer,
      bridge: noRenderer
    })
  )
}

const layerText = (directory: string | undefined) =>
  directory === undefined
    ? layerNoText(noPolicy)
    : Layer.catchAll(Policy.layerText(directory), ({ message }) => layerNoText(message))

/** A policy that is opened when it is first asked: most algorithms never do. */
const layerWhenAsked = (directory: string | undefined, maxSequenceLength: number | undefined) =>
  Layer.scoped(
    Inference,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const tokenizer = yield* Tokenizer
      const files = yield* FileSystem.FileSystem
      const endpoint = directory ?? "policy"
      const failed = (reason: string) => new InferenceError({ endpoint, reason })
      const opening =
        directory === undefined
          ? Effect.fail(failed(noPolicy))
          : Layer.buildWithScope(Policy.layerInference(directory, { threads: cores(), maxSequenceLength }), scope).pipe(
              Effect.provideService(Tokenizer, tokenizer),
              Effect.provideService(FileSystem.FileSystem, files),
              Effect.map(Context.get(Inference)),
              Effect.mapError(({ message }) => failed(message))
            )
      const opened = yield* Effect.cached(opening)
      const ask = <A>(use: (policy: InferenceService) => Effect.Effect<A, InferenceError>) =>
        Effect.flatMap(opened, use)
      return Inference.of({
        name: endpoint,
        maxSequenceLength: maxSequenceLength ?? Number.MAX_SAFE_INTEGER,
        generate: (promptIds, sampling) => ask((policy) => policy.generate(promptIds, sampling)),
        score: (tokenIds, temperature) => ask((policy) => policy.score(tokenIds, temperature)),
        adopt: () => Effect.void
      })
    })
  )

/** Reads the tokens of a model: a directory that was asked for must have a tokenizer, one that was found may. */
const reading = (asked: string | undefined, found: string | undefined) =>
  asked !== undefined
    ? Effect.map(HuggingFace.fromDirectory(asked), (tokenizer) => ({ tokenizer, notes: [] }))
    : found === undefined
      ? Effect.succeed({ tokenizer: undefined, notes: [] })
      : HuggingFace.fromDirectory(found).pipe(
          Effect.map((tokenizer) => ({ tokenizer, notes: [] })),
          Effect.catchAll(({ message }) => Effect.succeed({ tokenizer: undefined, notes: [`no text: ${message}`] }))
        )

/** Fails with what the algorithm, its teachers or the model say. @category running */
export const explaining = ({ algorithm, maxSequenceLength, model, rollouts, tokenizer }: Explaining) =>
  Effect.gen(function* () {
    const { layer } = yield* registry.resolve(algorithm)
    const { notes, tokenizer: reader } = yield* reading(tokenizer, model)
    const state = State.make()
    const directory = model ?? tokenizer
    const provided = Layer.mergeAll(
      layerWhenAsked(directory, maxSequenceLength),
      Layer.succeed(State.State, state),
      // Who asks sits and waits: a teacher is up, or it is said at once that it is not.
      OpenAi.layer({ readyTimeoutMs: 0 })
    ).pipe(Layer.provideMerge(layerText(directory)))
    const explanation = yield* explain(Layer.provide(layer, provided), rollouts, {
      tokenizer: reader,
      maxSequenceLength
    })
    const cells = Object.keys(yield* Effect.orElseSucceed(state.snapshot, (): State.Snapshot => ({})))
    const begun =
      cells.length === 0
        ? []
        : [`state ${cells.join(", ")} begins empty here; in the run it began with what earlier steps had left`]
    return { explanation, notes: [...notes, ...begun] } satisfies Explained
  })
