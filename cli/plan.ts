/** `primerl plan`: what the files amount to, and what follows from it. */
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { Output } from "./Output.ts"
import { files, lazily, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text" }

/** @category commands */
export const command = Command.make("plan", { files, set }, ({ files, set }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const { loadAny } = yield* lazily(() => import("../src/Config.ts"))
    const { text } = yield* lazily(() => import("./display/PlanText.ts"))
    const { write } = yield* Output
    const plan = yield* loadAny(files, set, { train: runs.check })
    yield* write(text(plan))
  })
).pipe(Command.withDescription("Prints the resolved configuration and what follows from it; starts nothing."))
