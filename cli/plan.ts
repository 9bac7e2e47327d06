/** `primerl plan`: what the files amount to, and what follows from it. */
import * as Command from "@effect/cli/Command"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { Finding, TrainDraft } from "../src/Config.ts"
import { Output } from "./Output.ts"
import { files, lazily, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text" }

/** A plan can be made where an environment is not installed; only a run needs it. */
const isEnvironment = ({ keys }: Finding): boolean => keys.every((key) => key.at(-2) === "env" && key.at(-1) === "id")

/** @category commands */
export const command = Command.make("plan", { files, set }, ({ files, set }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const { loadAny } = yield* lazily(() => import("../src/Config.ts"))
    const { text } = yield* lazily(() => import("./display/PlanText.ts"))
    const { write, written } = yield* Output
    const notes: Array<string> = []
    const check = (config: TrainDraft) =>
      Effect.map(runs.check(config), (findings) => {
        notes.push(...findings.filter(isEnvironment).map(({ what }) => what))
        return findings.filter((finding) => !isEnvironment(finding))
      })
    const plan = yield* loadAny(files, set, { train: check })
    const fs = yield* FileSystem.FileSystem
    const { name } = plan.config.model
    const isThere = name === undefined || (yield* Effect.orElseSucceed(fs.exists(`${name}/config.json`), () => false))
    if (!isThere) notes.push(`model.name: there is no model directory ${name}`)
    const sources = plan._tag === "Train" ? yield* runs.plan(plan.config) : []
    const engine = plan._tag === "Train" ? plan.config.trainer.engine : plan.config.engine
    const lora = plan._tag === "Train" ? plan.config.trainer.model.lora : plan.config.model.lora
    const tokens = plan._tag === "Train" ? plan.config.trainer.model.seqLen : plan.config.data.seqLen
    const memory =
      name === undefined || !isThere ? Option.none() : yield* Effect.option(runs.memory(name, engine, { tokens, lora }))
    yield* write(text(plan, sources, notes, Option.getOrUndefined(memory)))
    yield* written
  })
).pipe(Command.withDescription("Prints the resolved configuration and what follows from it; starts nothing."))
