/** A model's directory: weights in and out, and what goes with them. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Finite from "./Finite.ts"
import * as Job from "./Job.ts"
import { ModelError } from "./ModelError.ts"
import type * as Native from "./Native.ts"
import * as Safetensors from "./Safetensors.ts"

/** What old checkpoints hold besides parameters: buffers that are computed, and the head when it is the embedding. */
const isIgnored = (name: string, config: Native.ModelConfig) =>
  name.endsWith(".rotary_emb.inv_freq") || (name === "lm_head.weight" && config.tieWordEmbeddings)

const listed = (names: ReadonlyArray<string>) =>
  names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`

const shapeProblem = (
  tensors: ReadonlyArray<Native.Tensor>,
  checkpoint: Safetensors.Checkpoint,
  config: Native.ModelConfig
): string | undefined => {
  const missing = tensors.filter(({ name }) => !checkpoint.tensors.has(name)).map(({ name }) => name)
  if (missing.length > 0) return `missing tensors that config.json asks for: ${listed(missing)}`
  const known = new Set(tensors.map(({ name }) => name))
  const extra = [...checkpoint.tensors.keys()].filter((name) => !known.has(name) && !isIgnored(name, config))
  if (extra.length > 0) return `tensors that this architecture does not have: ${listed(extra)}`
  const wrong = tensors.find(({ name, shape }) => checkpoint.tensors.get(name)!.shape.join() !== shape.join())
  return wrong === undefined
    ? undefined
    : `tensor ${wrong.name} has shape [${checkpoint.tensors.get(wrong.name)!.shape.join(", ")}], config.json asks for [${wrong.shape.join(", ")}]`
}

/** Takes the weights of a directory, which must be exactly those that its config asks for; gives where each was. @category decoding */
export const load = (native: Native.NativeEngine, config: Native.ModelConfig, directory: string) =>
  Effect.scoped(
    Effect.gen(function* () {
      const checkpoint = yield* Safetensors.open(directory)
      const tensors = native.tensors()
      const problem = shapeProblem(tensors, checkpoint, config)
      if (problem !== undefined) return yield* new ModelError({ path: directory, reason: problem })
      for (const { name } of tensors) {
        const bytes = yield* checkpoint.read(name)
        const { dtype } = checkpoint.tensors.get(name)!
        yield* Job.run("writeTensor", () => native.writeTensor(name, dtype, bytes))
      }
      return checkpoint.files
    })
  )

/** What belongs to a model besides its weights and is kept as it is. */
const companions = [
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "vocab.json",
  "merges.txt",
  "chat_template.jinja"
]

const copyCompanions = (from: string, to: string, configText: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    yield* fs.writeFileString(`${to}/config.json`, configText)
    if ((yield* fs.realPath(from)) === (yield* fs.realPath(to))) return
    for (const file of companions) {
      if (yield* fs.exists(`${from}/${file}`)) yield* fs.copyFile(`${from}/${file}`, `${to}/${file}`)
    }
  }).pipe(Effect.mapError((error) => new ModelError({ path: to, reason: `cannot be written (${error.message})` })))

/** What of a model is written: its tensors, and how each is read. @category model */
export interface Saved<E> {
  readonly directory: string
  readonly tensors: ReadonlyArray<Native.Tensor>
  readonly readTensor: (name: string) => Effect.Effect<Float32Array, E>
}

/** Writes a model as a directory. Fails on a weight that is not finite. @category encoding */
export const save = <E>(
  { directory, readTensor, tensors }: Saved<E>,
  to: string,
  { configText, files }: { readonly configText: string; readonly files: Safetensors.Files }
): Effect.Effect<void, E | ModelError, FileSystem.FileSystem> =>
  Effect.zipRight(
    Safetensors.write(
      to,
      files,
      tensors.map(({ name, shape }) => ({
        name,
        shape,
        values: Effect.flatMap(readTensor(name), Finite.forSaving(to, name))
      }))
    ),
    copyCompanions(directory, to, configText)
  )
