/** `primerl sft`: supervised fine-tuning as the files describe it. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { Output } from "./Output.ts"
import { files, lazily, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text" }

/** @category commands */
export const command = Command.make("sft", { files, set }, ({ files, set }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const { loadSft } = yield* lazily(() => import("../src/Config.ts"))
    const { show } = yield* lazily(() => import("./display/Show.ts"))
    const { display } = yield* lazily(() => import("./display/SftDisplay.ts"))
    const config = yield* loadSft(files, set)
    const { write, writeError } = yield* Output
    const { directory, steps } = yield* runs.sft(config)
    yield* write(`run folder: ${directory}\n`)
    yield* show(display, config.maxSteps, steps).pipe(
      Effect.onInterrupt(() =>
        writeError(`interrupted; its files, and the checkpoints that [ckpt] asked for, are in ${directory}\n`)
      )
    )
    yield* write(`policy: ${config.saveTo ?? `${directory}/checkpoints/step_${config.maxSteps}`}\n`)
  }).pipe(Effect.scoped)
).pipe(Command.withDescription("Trains a policy on demonstrations."))
