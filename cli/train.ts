/** `primerl train`: reinforcement learning as the files describe it. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { Output } from "./Output.ts"
import { files, lazily, resume, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text", "--resume": "nothing" }

/** @category commands */
export const command = Command.make("train", { files, set, resume }, ({ files, set, resume }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const { loadTrain } = yield* lazily(() => import("../src/Config.ts"))
    const { show } = yield* lazily(() => import("./display/Show.ts"))
    const { display } = yield* lazily(() => import("./display/TrainDisplay.ts"))
    const config = yield* loadTrain(files, set, runs.check)
    const { write, writeError } = yield* Output
    const { directory, done, rewards, steps } = yield* runs.train(config, { resume })
    yield* write(`run folder: ${directory}\n`)
    if (resume && done < config.maxSteps) {
      yield* write(
        done > 0
          ? `going on after step ${done}\n`
          : "no checkpoint yet: beginning again, with what was already rolled out\n"
      )
    }
    if (done >= config.maxSteps) {
      yield* write(`nothing left to do: ${done} of ${config.maxSteps} steps are done\n`)
      return yield* Stream.runDrain(steps)
    }
    yield* show(display({ directory, rewards }), config.maxSteps, steps).pipe(
      Effect.onInterrupt(() => writeError(`interrupted; the same command with --resume goes on from ${directory}\n`))
    )
  }).pipe(Effect.scoped)
).pipe(Command.withDescription("Trains a policy by reinforcement learning."))
