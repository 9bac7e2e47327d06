/** The format of a folder of cases: `loss.json`, `packing.json` and `models/NAME/expected.json`, each optional. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { CaseError } from "./Check.ts"

const Numbers = Schema.Array(Schema.Number)
const Flags = Schema.Array(Schema.Boolean)
const Counts = Schema.Struct({ rl: Schema.Number, ce: Schema.Number, refKl: Schema.Number })
const Loss = Schema.Struct({ type: Schema.String }, { key: Schema.String, value: Schema.Unknown })

/** @category schemas */
export const LossCases = Schema.Struct({
  cases: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      loss: Loss,
      counts: Counts,
      sequences: Schema.Array(
        Schema.Struct({
          trainerLogprobs: Numbers,
          inferenceLogprobs: Numbers,
          referenceLogprobs: Schema.NullOr(Numbers),
          advantages: Numbers,
          lossMask: Flags,
          rlWeights: Schema.NullOr(Numbers),
          ceWeights: Schema.NullOr(Numbers),
          refKlWeights: Schema.NullOr(Numbers),
          expectedGradient: Numbers
        })
      ),
      expected: Schema.Struct({
        loss: Schema.Number,
        components: Counts,
        metrics: Schema.Record({ key: Schema.String, value: Numbers })
      })
    })
  )
})

/** @category schemas */
export const PackingCases = Schema.Struct({
  cases: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      lengths: Schema.Array(Schema.Int),
      maxSequenceLength: Schema.Int,
      workers: Schema.Int,
      padToMultipleOf: Schema.Int,
      cost: Schema.Literal("tokens", "flops"),
      streams: Schema.Boolean,
      binCostOf: Schema.optionalWith(Schema.Record({ key: Schema.String, value: Schema.Number }), {
        default: () => ({})
      }),
      expected: Schema.Array(Schema.Array(Schema.Struct({ sequenceLengths: Numbers, dummy: Schema.Boolean })))
    })
  )
})

const Norm = Schema.Struct({ norm: Schema.Number, first: Numbers })

/** @category schemas */
export const ModelCase = Schema.Struct({
  tokenIds: Schema.Array(Schema.Int),
  sequenceLengths: Schema.Array(Schema.Int),
  temperatures: Numbers,
  lossMask: Flags,
  inferenceLogprobs: Numbers,
  referenceLogprobs: Schema.NullOr(Numbers),
  advantages: Numbers,
  rlWeights: Schema.NullOr(Numbers),
  ceWeights: Schema.NullOr(Numbers),
  refKlWeights: Schema.NullOr(Numbers),
  loss: Loss,
  counts: Counts,
  expected: Schema.Struct({
    logprobs: Numbers,
    entropy: Numbers,
    loss: Schema.Number,
    gradNorm: Schema.Number,
    gradients: Schema.Record({ key: Schema.String, value: Norm })
  }),
  optimizer: Schema.Struct({
    type: Schema.Literal("adamw"),
    lr: Schema.Number,
    betas: Schema.Tuple(Schema.Number, Schema.Number),
    eps: Schema.Number,
    weightDecay: Schema.Number,
    maxGradNorm: Schema.NullOr(Schema.Number)
  }),
  afterStep: Schema.Struct({
    parameters: Schema.Record({ key: Schema.String, value: Norm }),
    logprobs: Numbers
  })
})

/** Reads a file of cases; the error names the file and the first field that does not fit. @category decoding */
export const read = <A, I>(
  path: string,
  schema: Schema.Schema<A, I>
): Effect.Effect<A, CaseError, FileSystem.FileSystem> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.mapError(
      fs.readFileString(path),
      (error) => new CaseError({ file: path, reason: `cannot be read (${error.message})` })
    )
    return yield* Effect.mapError(Schema.decode(Schema.parseJson(schema))(text), (error) => {
      const issue = ParseResult.ArrayFormatter.formatErrorSync(error)[0]
      const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.map(String).join(".")}: `
      return new CaseError({ file: path, reason: `is not in the format of these cases: ${where}${issue?.message}` })
    })
  })
