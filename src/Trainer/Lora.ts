/**
 * Low-rank adapters on an engine: y = W·x + s·B·(A·dropout(x)), where W stays as it is and only A and B are trained
 * (arXiv 2106.09685). An adapter is asked as an engine is, and several live on one model at a time.
 */
import type * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { Engine } from "./Engine.ts"
import * as Finite from "./Finite.ts"
import { ModelError } from "./ModelError.ts"
import type * as Native from "./Native.ts"
import type { NativeError } from "./NativeError.ts"
import * as Peft from "./Peft.ts"
import { partOf, projections } from "./Projections.ts"

/** Whether the engine can run an adapter for this module of a model; others can be merged alone. @category getters */
export const runs = (module: string): boolean => module.startsWith("model.layers.")

const files = (base: Engine, lora: Peft.Lora) => ({
  load: (into: Engine, directory: string) =>
    Effect.scoped(Effect.flatMap(fitting(into, base, lora, directory), copy(into))),
  save: (from: Engine, directory: string) =>
    Peft.write(
      directory,
      lora,
      base.directory,
      from.tensors.map(({ name, shape }) => ({
        name,
        shape,
        values: Effect.flatMap(from.readTensor(name), Finite.forSaving(directory, name))
      }))
    )
})

const fitting = (into: Engine, base: Engine, lora: Peft.Lora, directory: string) =>
  Effect.filterOrFail(
    Peft.open(directory, base.tensors),
    (found) =>
      found.lora.rank === lora.rank &&
      Peft.scaleOf(found.lora) === Peft.scaleOf(lora) &&
      found.pairs.size * 2 === into.tensors.length,
    ({ lora: { alpha, rank }, pairs }) =>
      new ModelError({
        path: `${directory}/${Peft.configName}`,
        reason: `is of another adapter: r ${rank}, lora_alpha ${alpha}, ${pairs.size} modules; wanted are r ${lora.rank}, lora_alpha ${lora.alpha}, ${into.tensors.length / 2} modules`
      })
  )

const copy =
  (into: Engine) =>
  ({ pairs, read }: Peft.Files) =>
    Effect.forEach(
      pairs,
      ([module, pair]) =>
        Effect.forEach(
          ["A", "B"] as const,
          (side) =>
            Effect.flatMap(read(pair[side]), (values) =>
              into.writeTensor(`base_model.model.${module}.lora_${side}.weight`, values)
            ),
          { discard: true }
        ),
      { discard: true }
    )

/** A trained adapter on a model with so many layers, for a plan of its memory. @category getters */
export const planned = (layers: number, lora: Peft.Lora): Native.AdapterOptions => ({
  rank: lora.rank,
  scale: Peft.scaleOf(lora),
  dropout: lora.dropout,
  seed: 0,
  trainable: true,
  modules: Array.from({ length: layers }, (_, layer) =>
    projections
      .filter((name) => lora.targetModules.includes(name))
      .map((name) => `model.layers.${layer}.${partOf(name)}.${name}`)
  ).flat()
})

const on = (
  base: Engine,
  lora: Peft.Lora,
  modules: ReadonlyArray<string>,
  options: { readonly seed: number; readonly trainable: boolean }
) =>
  base.adapter(
    { rank: lora.rank, scale: Peft.scaleOf(lora), dropout: lora.dropout, modules, ...options },
    files(base, lora)
  )

/**
 * A new adapter: A from the seed, B zero, so that it computes as the model does until it is trained. Its `tensors`,
 * gradients, moments and steps are its own, `load` and `save` are of PEFT's files. Fails with ERR_CONFIG when the engine
 * cannot run it.
 *
 * @category constructors
 */
export const attach = (
  base: Engine,
  options: Peft.Lora & { readonly seed: number; readonly trainable: boolean }
): Effect.Effect<Engine, ModelError | NativeError, Scope.Scope> =>
  Effect.gen(function* () {
    const { seed, trainable, ...lora } = options
    const modules = yield* Peft.targetsOf(base.directory, lora.targetModules, Peft.modulesOf(base.tensors).keys())
    return yield* on(base, lora, modules, { seed, trainable })
  })

/** The adapter in a PEFT directory. @category constructors */
export const open = (
  base: Engine,
  directory: string,
  options: { readonly trainable: boolean; readonly seed?: number | undefined }
): Effect.Effect<Engine, ModelError | NativeError, FileSystem.FileSystem | Scope.Scope> =>
  Effect.gen(function* () {
    const { seed = 0, trainable } = options
    return yield* Effect.scopedWith((reading) =>
      Effect.gen(function* () {
        const found = yield* Scope.extend(Peft.open(directory, base.tensors), reading)
        const adapter = yield* on(base, found.lora, Array.from(found.pairs.keys()), { seed, trainable })
        yield* copy(adapter)(found)
        return adapter
      })
    )
  })

/** Adds s·B·A to `weight` (rows × columns), summed in float64 and rounded once. */
const addProduct = (
  weight: Float32Array,
  {
    A,
    B,
    rank,
    scale
  }: { readonly A: Float32Array; readonly B: Float32Array; readonly rank: number; readonly scale: number }
) => {
  const rows = B.length / rank
  const columns = A.length / rank
  const sum = new Float64Array(columns)
  for (let row = 0; row < rows; row++) {
    sum.set(weight.subarray(row * columns, (row + 1) * columns))
    for (let k = 0; k < rank; k++) {
      const factor = scale * B[row * rank + k]!
      for (let column = 0; column < columns; column++) sum[column]! += factor * A[k * columns + column]!
    }
    weight.set(sum, row * columns)
  }
}

/**
 * Makes the weights of `engine` W + s·B·A. Every name and shape is checked before a weight changes.
 *
 * @category running
 */
export const merge = (
  engine: Engine,
  directory: string
): Effect.Effect<void, ModelError | NativeError, FileSystem.FileSystem> =>
  Effect.scoped(
    Effect.gen(function* () {
      const { lora, pairs, read } = yield* Peft.open(directory, engine.tensors)
      for (const [module, pair] of pairs) {
        const name = `${module}.weight`
        const [A, B] = [yield* read(pair.A), yield* read(pair.B)]
        const weight = yield* engine.readTensor(name)
        addProduct(weight, { A, B, rank: lora.rank, scale: Peft.scaleOf(lora) })
        const wrong = Finite.notFinite(weight)
        if (wrong !== undefined) {
          return yield* new ModelError({ path: directory, reason: `with it tensor ${name} holds ${wrong}` })
        }
        yield* engine.writeTensor(name, weight)
      }
    })
  )
