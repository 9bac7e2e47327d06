// A program with a rollout whose command never ends; it says where the rollout lies.
import * as Effect from "effect/Effect"
import * as Runtime from "../../../src/Runtime.ts"
import * as Process from "../../../src/runtimes/Process.ts"

const program = Effect.gen(function* () {
  const machine = yield* Runtime.machine
  yield* machine.write("held", "x")
  const { stdout } = yield* machine.run({ program: "pwd", args: [] })
  process.stdout.write(stdout)
  yield* machine.run({ program: "sh", args: ["-c", "sleep 600 & echo $! $$ > pids; wait"] })
})
await Effect.runPromise(Effect.provide(program, Process.layer({ timeoutMs: 1e9 })))
