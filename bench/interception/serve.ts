/** The server under measurement: rollouts are opened and closed over a port of their own, turns go to the provider. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Scope from "effect/Scope"
import { Inference, InferenceError } from "../../src/Inference.ts"
import * as Interception from "../../src/Interception.ts"
import { route } from "../../src/inference/openai/GenerateRoute.ts"
import * as Http from "../../src/inference/openai/Http.ts"
import type { Renderer } from "../../src/Renderer.ts"
import * as ChatMl from "../../src/renderers/ChatMl.ts"
import * as Session from "../../src/Session.ts"
import { Tokenizer } from "../../src/Tokenizer.ts"
import { qwen3 } from "../../test/tokenizer/qwen3.ts"

const provider = (url: string) =>
  Layer.scoped(
    Inference,
    Effect.gen(function* () {
      const server = Http.make({ client: yield* Http.client, baseUrl: url, key: undefined, timeoutMs: 600_000 })
      return {
        name: "policy",
        maxSequenceLength: 1 << 17,
        score: () => Effect.die("not asked"),
        adopt: () => Effect.void,
        generate: (promptIds, sampling) =>
          server.post(route.path, route.generation("policy", promptIds, sampling)).pipe(
            Effect.flatMap((answer) => route.readGeneration(answer, sampling)),
            Effect.mapError(({ what }) => new InferenceError({ endpoint: "policy", reason: what }))
          )
      }
    })
  )

export const serve = (url: string): void => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  const opened = new Map<string, Scope.CloseableScope>()

  const program = Effect.gen(function* () {
    const { open } = yield* Interception.Interception
    const runtime = yield* Effect.runtime<Inference | Renderer>()
    const run = Runtime.runPromise(runtime)
    const close = (secret: string) =>
      Effect.suspend(() => {
        const scope = opened.get(secret)
        opened.delete(secret)
        return scope === undefined ? Effect.void : Scope.close(scope, Exit.void)
      })
    const next = Effect.gen(function* () {
      const scope = yield* Scope.make()
      const session = yield* Session.make({ sampling: {}, seedOf: (turn) => turn })
      const endpoint = yield* Scope.extend(open({ session }), scope)
      opened.set(endpoint.secret, scope)
      return endpoint
    })
    const control = createServer((request, response) => {
      const path = request.url ?? ""
      if (path === "/memory") {
        collect()
        response.end(JSON.stringify(process.memoryUsage()))
      } else if (path === "/cpu") {
        const { system, user } = process.cpuUsage()
        response.end(JSON.stringify({ seconds: (system + user) / 1e6 }))
      } else {
        const [, verb, secret = ""] = path.split("/")
        const work = verb === "open" ? Effect.zipRight(close(secret), next) : Effect.as(close(secret), {})
        run(work).then((answer) => response.end(JSON.stringify(answer)))
      }
    })
    control.listen(0, "127.0.0.1", () =>
      console.log(JSON.stringify({ url: `http://127.0.0.1:${(control.address() as AddressInfo).port}` }))
    )
    return yield* Effect.never
  })
  const tokenizer = Layer.sync(Tokenizer, qwen3)
  const layer = Layer.mergeAll(provider(url), ChatMl.layer, Interception.layer()).pipe(Layer.provideMerge(tokenizer))
  Effect.runFork(Effect.provide(program, layer))
}
