/** `primerl eval`: the reward of a policy on examples that training does not see. */
import * as Command from "@effect/cli/Command"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Output } from "./Output.ts"
import { examples, files, lazily, model, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text", "--model": "text", "--examples": "count" }

/** @category commands */
export const command = Command.make("eval", { files, set, model, examples }, ({ files, set, model, examples }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const path = yield* Path.Path
    const { loadTrain } = yield* lazily(() => import("../src/Config.ts"))
    const { lines } = yield* lazily(() => import("./display/EvalText.ts"))
    const { write } = yield* Output
    const named = Option.match(model, {
      onNone: () => [],
      onSome: (name) => [`model.name=${JSON.stringify(path.resolve(name))}`]
    })
    const config = yield* loadTrain(files, [...set, ...named], runs.check)
    const options = { examples: Option.getOrUndefined(examples) }
    yield* Stream.runForEach(runs.evaluate(config, options), (report) =>
      write(
        lines(report)
          .map((line) => `${line}\n`)
          .join("")
      )
    )
  })
).pipe(Command.withDescription("Evaluates a policy on examples that training does not see."))
