import { Effect } from "effect"
import { Interception, Session } from "primerl"
import { supportAgent } from "./supportAgent.ts"

export const recorded = Effect.gen(function* () {
  const { open } = yield* Interception.Interception
  const session = yield* Session.make({ sampling: {}, limits: { maxTurns: 20 }, seedOf: (turn) => turn })
  const endpoint = yield* open({ session })
  yield* Effect.promise(() => supportAgent(endpoint, "Order 17 arrived broken."))
  return yield* session.seal("done") // the trace
}).pipe(Effect.scoped)
