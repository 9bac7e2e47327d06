import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Journal from "../src/Journal.ts"
import { absent } from "../src/Rollout.ts"
import { planned, rollout } from "../src/testing/index.ts"

const open = (directory: string, from?: number) =>
  Effect.provide(Journal.Journal, Journal.layerFile({ directory, from }))

describe("Journal", () => {
  it.scoped("what was appended is found again by a later process, bit for bit", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const one = rollout({ id: "a", reward: 0.1 + 0.2 })
      const gone = absent(planned({ id: "b" }), { _tag: "Failed", blame: "tools", message: "the sandbox died" })
      const first = yield* open(directory)
      yield* first.append(1, one)
      yield* first.append(2, gone)
      const second = yield* open(directory)
      expect(second.find("a")).toEqual(Option.some(one))
      expect(second.find("b")).toEqual(Option.some(gone))
      expect(second.find("c")).toEqual(Option.none())
      expect((yield* open(directory, 2)).find("a")).toEqual(Option.none())
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a sealed step stands in the order of its plan, whatever ended first", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const ids = ["a", "b", "c"]
      const file = `${directory}/${Journal.fileOf(1)}`
      const first = yield* open(directory)
      for (const id of ["c", "a"]) yield* first.append(1, rollout({ id }))
      const second = yield* open(directory)
      yield* second.append(1, rollout({ id: "b" }))
      yield* second.seal(1, ids)
      const lines = (yield* fs.readFileString(file)).trimEnd().split("\n")
      expect(lines.map((line) => JSON.parse(line).id)).toEqual(ids)
      expect(yield* fs.readDirectory(directory)).toEqual([Journal.fileOf(1)])
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("what has no written form is an error that names the rollout, and leaves the journal as it was", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const journal = yield* open(directory)
      const odd = [
        rollout({ id: "odd", rewards: { exact: "1" as unknown as number } }),
        rollout({ id: "odd", trace: undefined as never })
      ]
      for (const one of odd) {
        const error = yield* Effect.flip(journal.append(1, one))
        expect(error._tag).toBe("JournalError")
        expect(error.message).toContain("rollout odd cannot be written down: ")
      }
      expect((yield* Effect.flip(journal.append(1, odd[0]!))).message).toContain("rewards.exact: Expected number")
      yield* journal.append(1, rollout({ id: "a" }))
      expect(Option.isSome((yield* open(directory)).find("a"))).toBe(true)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a line cut by a kill never happened, and what follows it is whole", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const first = yield* open(directory)
      yield* first.append(1, rollout({ id: "a" }))
      yield* first.append(1, rollout({ id: "b" }))
      const file = `${directory}/${Journal.fileOf(1)}`
      const text = yield* fs.readFileString(file)
      yield* fs.writeFileString(file, text.slice(0, -20))
      const second = yield* open(directory)
      expect(Option.isSome(second.find("a"))).toBe(true)
      expect(Option.isSome(second.find("b"))).toBe(false)
      yield* second.append(1, rollout({ id: "b" }))
      const third = yield* open(directory)
      expect(Option.isSome(third.find("a")) && Option.isSome(third.find("b"))).toBe(true)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a whole line that is no rollout is an error that names file and line", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      yield* fs.writeFileString(`${directory}/${Journal.fileOf(3)}`, '{"_tag":"Rollout"}\n')
      const exit = yield* Effect.exit(open(directory))
      expect(Exit.isFailure(exit) && String(exit.cause)).toMatch(/step_000003\.jsonl: line 1:/)
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
