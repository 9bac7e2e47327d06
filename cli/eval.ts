/** `primerl eval`: the reward of a policy on examples that training does not see. */
import * as Command from "@effect/cli/Command"
import * as Path from "@effect/platform/Path"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { Output } from "./Output.ts"
import { examples, files, lazily, model, set } from "./options.ts"
import { Runs } from "./Runs.ts"
import type { Operand } from "./usage.ts"

/** @category syntax */
export const operands: Readonly<Record<string, Operand>> = { "--set": "text", "--model": "text", "--examples": "count" }

/** An evaluation that measured nothing is no success. @category errors */
export class NoReward extends Data.TaggedError("NoReward")<{ readonly sources: ReadonlyArray<string> }> {
  override get message() {
    return `no attempt of ${this.sources.join(", ")} counts, so there is no reward`
  }
}

/** @category commands */
export const command = Command.make("eval", { files, set, model, examples }, ({ files, set, model, examples }) =>
  Effect.gen(function* () {
    const runs = yield* Runs
    const path = yield* Path.Path
    const { loadTrain } = yield* lazily(() => import("../src/Config.ts"))
    const { lines } = yield* lazily(() => import("./display/EvalText.ts"))
    const { write, written } = yield* Output
    const named = Option.match(model, {
      onNone: () => [],
      onSome: (name) => [`model.name=${JSON.stringify(path.resolve(name))}`]
    })
    const config = yield* loadTrain(files, [...set, ...named], runs.check)
    const options = { examples: Option.getOrUndefined(examples) }
    const unscored: Array<string> = []
    yield* Stream.runForEach(runs.evaluate(config, options), (report) => {
      if (report.rollouts === 0) unscored.push(report.name)
      return write(
        lines(report)
          .map((line) => `${line}\n`)
          .join("")
      )
    })
    yield* written
    if (unscored.length > 0) return yield* new NoReward({ sources: unscored })
  })
).pipe(Command.withDescription("Evaluates a policy on examples that training does not see."))
