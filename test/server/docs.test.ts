import { readFileSync } from "node:fs"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { asAdmin, policy, requests, serve } from "./kit.ts"

const text = readFileSync(new URL("../../docs/serve.md", import.meta.url), "utf8")

/** Every curl command of the page: its path, and its body where it has one. */
const commands = Array.from(text.matchAll(/```sh\n(.*?)```/gs), ([, block]) => block!)
  .join("\n")
  .split(/^(?=curl )/m)
  .filter((command) => command.startsWith("curl "))
  .map((command) => ({
    path: /http:\/\/127\.0\.0\.1:8001(\S+)/.exec(command)![1]!,
    body: (/-d '(.*?)'/s.exec(command)?.[1] ?? "{}").replace("examples/reverse-text/policy", policy),
    isAdmin: command.includes("$ADMIN_KEY")
  }))

layer(NodeContext.layer)("docs/serve.md", (it) => {
  it.scoped("its examples are answered", () =>
    Effect.gen(function* () {
      const { url } = yield* serve()
      expect(commands.length).toBeGreaterThan(10)
      for (const { body, isAdmin, path } of commands) {
        const response = yield* Effect.promise(() =>
          fetch(`${url}${path}`, { method: "POST", body, headers: isAdmin ? asAdmin : {} })
        )
        const answer = yield* Effect.promise(() => response.text())
        // there is no adapter to load
        const expected = path.includes("unload_lora") ? 404 : path.includes("load_lora") ? 400 : 200
        expect([path, response.status, answer]).toEqual([path, expected, answer])
      }
    })
  )

  it.scoped("names every route that is served", () =>
    Effect.gen(function* () {
      const { url } = yield* serve()
      const { call } = requests(url)
      const routes = Array.from(
        text.matchAll(/\| `(GET|POST) (\/[\w/]+)`/g),
        ([, method, path]) => [method, path] as const
      )
      expect(routes.length).toBeGreaterThan(5)
      for (const [method, path] of routes) {
        const { body } = yield* call(path!, method === "GET" ? undefined : {})
        expect(body.error?.message ?? "").not.toMatch(/^there is no/)
      }
    })
  )
})
