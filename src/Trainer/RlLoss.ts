/**
 * The `rl` component of one sequence. A loss sees the members only, so there is no mask to forget and nothing to multiply
 * by 0; weights, sums and the global count are the engine's. One module is a loss's formula, documentation, mock and the
 * oracle of its native kernel.
 */
import * as Data from "effect/Data"
import * as Either from "effect/Either"
import type * as ParseResult from "effect/ParseResult"
import * as Schema from "effect/Schema"
import { inWords } from "../internal/inWords.ts"
import { Grad } from "./Grad.ts"
import type { NativeLoss } from "./Native.ts"

/** Numbers of one sequence's members, in token order, all of one length. @category model */
export interface Members {
  /** log-probabilities under the weights in training */
  readonly trainer: Float64Array
  /** log-probabilities under the policy that sampled */
  readonly inference: Float64Array
  readonly advantages: Float64Array
  readonly reference: Float64Array | undefined
}

/** What a loss is given: the members, with the trainer's log-probabilities as what is differentiated. @category model */
export interface Sequence extends Omit<Members, "trainer"> {
  readonly trainer: Grad
  /** what each member's loss is multiplied by; matters only to a loss that returns its gradient by hand */
  readonly weights: Float64Array
}

/** Loss per member: as a Grad, or by hand with the gradient of Σ weights·loss by `trainer`. @category model */
export type PerMember = Grad | { readonly loss: ArrayLike<number>; readonly gradient: ArrayLike<number> }

/**
 * A loss as a module declares it; functions of the config come first, so that a config is read once.
 *
 * @category model
 */
export interface Definition<Fields extends Schema.Struct.Fields> {
  readonly type: string
  /** keys as they stand in the run's configuration */
  readonly Config: Schema.Struct<Fields>
  readonly loss: (config: Schema.Struct.Type<Fields>) => (sequence: Sequence) => PerMember
  /** whether the policy term leaves member `i` out, because its probability has moved too far */
  readonly masked?: ((config: Schema.Struct.Type<Fields>) => (members: Members) => (i: number) => boolean) | undefined
  /** what else is worth watching, per sequence */
  readonly metrics?:
    | ((config: Schema.Struct.Type<Fields>) => (members: Members) => Readonly<Record<string, number>>)
    | undefined
  /** the native kernel that computes the same */
  readonly native?: ((config: Schema.Struct.Type<Fields>) => NativeLoss) | undefined
}

/** A loss with its configuration. @category model */
export interface RlLoss {
  readonly type: string
  readonly loss: (sequence: Sequence) => PerMember
  readonly masked: ((members: Members) => (i: number) => boolean) | undefined
  readonly metrics: ((members: Members) => Readonly<Record<string, number>>) | undefined
  readonly native: NativeLoss | undefined
}

/** A definition that reads its own configuration. @category model */
export interface Defined<Fields extends Schema.Struct.Fields> extends Definition<Fields> {
  /** Unknown keys are refused. */
  readonly decode: (config: unknown) => Either.Either<RlLoss, ParseResult.ParseError>
}

/**
 * Declares a loss: a module's default export. Its configuration needs no services; without `Config` it takes no keys.
 *
 * @category constructors
 */
export const define = <Fields extends Schema.Struct.Fields = {}>(
  options: Omit<Definition<Fields>, "Config"> & { readonly Config?: Schema.Struct<Fields> | undefined }
): Defined<Fields> => {
  const definition = { ...options, Config: options.Config ?? (Schema.Struct({}) as unknown as Schema.Struct<Fields>) }
  const config = definition.Config as unknown as Schema.Schema<Schema.Struct.Type<Fields>>
  // A schema without fields lets every key pass, whatever it is told of those that it does not know.
  const keyless = config.pipe(
    Schema.filter((given) =>
      Object.keys(given as object).map((key) => ({ path: [key], message: "is unexpected; it takes no keys" }))
    )
  )
  const decode = Schema.decodeUnknownEither(Object.keys(definition.Config.fields).length === 0 ? keyless : config, {
    onExcessProperty: "error",
    errors: "all"
  })
  return { ...definition, decode: (input) => Either.map(decode(input), (typed) => configure(definition, typed)) }
}

const configure = <Fields extends Schema.Struct.Fields>(
  { loss, masked, metrics, native, type }: Definition<Fields>,
  config: Schema.Struct.Type<Fields>
): RlLoss => ({
  type,
  loss: loss(config),
  masked: masked?.(config),
  metrics: metrics?.(config),
  native: native?.(config)
})

/** A loss from a program; what is left out has its default. Throws ParseError on a value out of range. @category constructors */
export const make = <Fields extends Schema.Struct.Fields>(
  definition: Definition<Fields>,
  config: NoInfer<Schema.Struct.Constructor<Fields>>
): RlLoss => configure(definition, definition.Config.make(config) as Schema.Struct.Type<Fields>)

/** A loss that cannot be computed, or that is not finite on some member. @category errors */
export class LossError extends Data.TaggedError("LossError")<{
  readonly loss: string
  readonly rollout: string
  readonly reason: string
}> {
  override get message() {
    return `loss ${this.loss}, rollout ${this.rollout}: ${this.reason}`
  }
}

/** Numbers of one sequence's members with the weight of each. @category model */
export interface WeightedMembers extends Members {
  readonly weights: Float64Array
}

const run = (loss: RlLoss, members: WeightedMembers) => {
  const { trainer, weights } = members
  const count = trainer.length
  const leaf = Grad.leaf(trainer)
  const out: PerMember | undefined = loss.loss({ ...members, trainer: leaf })
  if (out === undefined) throw new TypeError("it returned nothing; return a Grad, or { loss, gradient }")
  const values = out instanceof Grad ? out.value : out.loss
  if (values.length !== count) throw new RangeError(`${values.length} losses for ${count} members; return one for each`)
  if (out instanceof Grad) out.backward(weights)
  const gradient = out instanceof Grad ? leaf.gradient : out.gradient
  if (gradient.length !== count) throw new RangeError(`a gradient of length ${gradient.length} for ${count} members`)
  let total = 0
  for (let i = 0; i < count; i++) {
    if (!Number.isFinite(values[i]) || !Number.isFinite(gradient[i])) {
      const at = `log-probability ${trainer[i]} against ${members.inference[i]}`
      throw new RangeError(`member ${i} (${at}) has loss ${values[i]} and gradient ${gradient[i]}`)
    }
    total += weights[i]! * values[i]!
  }
  return { total, gradient }
}

/** Σ weights·loss over the members of one sequence, and its gradient by `trainer`. @category evaluation */
export const evaluate = (
  loss: RlLoss,
  rollout: string,
  members: WeightedMembers
): Either.Either<{ readonly total: number; readonly gradient: ArrayLike<number> }, LossError> =>
  guarded(loss, rollout, () => run(loss, members))

/** What a loss's own functions throw, as its error; `rollout` says on which sequences. @category evaluation */
export const guarded = <A>(loss: RlLoss, rollout: string, run: () => A): Either.Either<A, LossError> =>
  Either.try({ try: run, catch: (cause) => new LossError({ loss: loss.type, rollout, reason: inWords(cause) }) })
