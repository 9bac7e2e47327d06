/** Frozen models as a test wants them: each by its name, with its own mind, its own pace and its own ways to fail. */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Endpoints from "../Endpoints.ts"
import { InferenceError } from "../Inference.ts"
import { type Script, scripted } from "./policy.ts"

/** What a teacher says, and how it fails. @category model */
export interface Teacher extends Omit<Script, "name"> {
  /** log-probability of each token after those before it, in nats; made up from its name and the tokens unless given */
  readonly score?: ((tokenIds: Int32Array, temperature: number) => Float32Array | number | Error) | undefined
  /** by the clock, for one scoring; 0 unless given */
  readonly scoringMs?: number | undefined
  /** why it cannot be connected to */
  readonly refuses?: string | undefined
}

const connected = (name: string, teacher: Teacher) =>
  Effect.map(
    scripted({ ...teacher, name }),
    (model): Endpoints.FrozenModel => ({
      ...model,
      score: (tokenIds, temperature = 1) =>
        Effect.suspend(() => {
          const given = teacher.score?.(tokenIds, temperature)
          if (given instanceof Error) return Effect.fail(new InferenceError({ endpoint: name, reason: given.message }))
          if (given === undefined) return model.score(tokenIds, temperature)
          if (given instanceof Float32Array) return Effect.succeed(given)
          // The first token has no context.
          return Effect.succeed(Float32Array.from(tokenIds, (_, i) => (i === 0 ? 0 : given)))
        }).pipe(Effect.delay(teacher.scoringMs ?? 0))
    })
  )

/**
 * Frozen models by the name in an endpoint's config; the others are refused, with the names that there are.
 *
 * @category layers
 */
export const layerTeachers = (teachers: Readonly<Record<string, Teacher>>): Layer.Layer<Endpoints.Endpoints> =>
  Endpoints.layerOf(({ name }) => {
    const teacher = Object.hasOwn(teachers, name) ? teachers[name] : undefined
    const refused = (reason: string) => Effect.fail(new InferenceError({ endpoint: name, reason }))
    if (teacher === undefined) return refused(`there is no such teacher; there are ${Object.keys(teachers).join(", ")}`)
    return teacher.refuses === undefined ? connected(name, teacher) : refused(teacher.refuses)
  })
