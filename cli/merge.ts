/** `primerl merge`: an adapter made part of the model that it is on. */
import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Effect from "effect/Effect"
import { Output } from "./Output.ts"
import { Runs } from "./Runs.ts"

const directory = (name: string, description: string) => Args.text({ name }).pipe(Args.withDescription(description))

const args = {
  model: directory("MODEL_DIR", "The model that the adapter was trained on; it is only read."),
  adapter: directory("ADAPTER_DIR", "The adapter in PEFT's files, such as a checkpoint of a run; it is only read."),
  into: directory("OUT_DIR", "Where the merged model goes; must not be there yet.")
}

/** @category commands */
export const command = Command.make("merge", args, ({ adapter, into, model }) =>
  Effect.gen(function* () {
    const { merge } = yield* Runs
    const { write, written } = yield* Output
    yield* merge({ model, adapter, into })
    yield* write(`model: ${into}\n`)
    yield* written
  })
).pipe(Command.withDescription("Makes an adapter part of its model: a model directory for any program."))
