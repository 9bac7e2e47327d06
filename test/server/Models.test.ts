import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as Models from "../../src/server/Models.ts"

const base = { id: "base", root: "/base" } as Parameters<typeof Models.make>[0]
const adapter = { id: "a", root: "/a" }

/** An engine that says when it is closed. */
const opened = (closed: Array<string>, name: string) =>
  Effect.acquireRelease(Effect.succeed({ name } as never), () => Effect.sync(() => void closed.push(name)))

it.scoped("an adapter that is replaced or unloaded ends with its last request", () =>
  Effect.gen(function* () {
    const models = yield* Models.make(base)
    const closed: Array<string> = []
    yield* models.add(adapter, opened(closed, "first"))
    const request = yield* Scope.make()
    const used = yield* Scope.extend(models.lease("a"), request)
    yield* models.add({ ...adapter, root: "/b" }, opened(closed, "second"))
    expect(used.root).toBe("/a")
    expect((yield* Effect.scoped(models.lease("a"))).root).toBe("/b")
    expect(closed).toEqual([])
    yield* Scope.close(request, Exit.void)
    expect(closed).toEqual(["first"])
    yield* models.remove("a")
    expect(closed).toEqual(["first", "second"])
    expect((yield* Effect.flip(Effect.scoped(models.lease("a")))).status).toBe(404)
  })
)

it.effect("an adapter that cannot be opened leaves nothing behind, and closing the server closes the rest", () =>
  Effect.gen(function* () {
    const closed: Array<string> = []
    yield* Effect.scoped(
      Effect.gen(function* () {
        const models = yield* Models.make(base)
        yield* models.add(adapter, opened(closed, "first"))
        const failing = Effect.zipRight(opened(closed, "half"), Effect.fail("broken"))
        expect(yield* Effect.flip(models.add(adapter, failing))).toBe("broken")
        expect(closed).toEqual(["half"])
        expect((yield* Effect.scoped(models.lease("a"))).root).toBe("/a")
      })
    )
    expect(closed).toEqual(["half", "first"])
  })
)
