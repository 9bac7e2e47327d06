import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Credit from "../src/Credit.ts"
import * as Journal from "../src/Journal.ts"
import type { ScoredStep } from "../src/orchestrator/ScoredStep.ts"
import { absent } from "../src/Rollout.ts"
import { planned, rollout } from "../src/testing/index.ts"

const open = (directory: string, from?: number) =>
  Effect.provide(
    Journal.Journal,
    Journal.layerFile({ directory: `${directory}/rollouts`, credits: `${directory}/credits`, from })
  )

const scored = (id: string, credit: Credit.Credit) => ({ _tag: "Scored" as const, rollout: rollout({ id }), credit })

/** Two rollouts with every kind of claim, and one that does not count. */
const step: ScoredStep = {
  items: [
    scored("a", {
      claims: [
        { stream: "referenceLogprobs", over: 1, values: Float32Array.of(-0.1, -0, -1e-45), writer: "opd.scoreRollout" },
        { stream: "refKl", over: "sampled", values: 1, writer: "opd.scoreRollout" },
        { stream: "advantages", over: "sampled", values: -0, writer: "" },
        { stream: "rl", over: "sampled", values: 0.1 + 0.2, writer: "" }
      ],
      counts: { negative: 1 }
    }),
    absent(planned({ id: "gone" }), { _tag: "Failed", blame: "algorithm", message: "the teacher left" }),
    scored("b", Credit.empty)
  ],
  state: { "math/baseline": { mean: 0.1 }, sampler: { groups: 3 } }
}

describe("Journal", () => {
  it.scoped("CKPT-06: a sealed step comes back whole, its credits bit for bit, with the state behind it", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const first = yield* open(directory)
      for (const id of ["b", "a"]) yield* first.append(2, rollout({ id }))
      yield* first.append(2, absent(planned({ id: "gone" }), { _tag: "NoReward", reward: Number.NaN }))
      yield* first.seal(2, step)
      const second = yield* open(directory, 2)
      expect(yield* second.sealed(1)).toEqual(Option.none())
      const again = Option.getOrThrow(yield* second.sealed(2))
      expect(again).toEqual(step)
      const [a] = again.items
      expect(Object.is(a!._tag === "Scored" && a!.credit.claims[2]!.values, -0)).toBe(true)
      expect(Object.is(a!._tag === "Scored" && (a!.credit.claims[0]!.values as Float32Array)[1], -0)).toBe(true)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("the state that a run goes on with is that behind the last step without a gap", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const journal = yield* open(directory)
      for (const number of [2, 3, 5]) yield* journal.seal(number, { items: [], state: { number } })
      const behind = (from: number) => Journal.stateBehind({ credits: `${directory}/credits`, from })
      expect(yield* behind(2)).toEqual(Option.some({ number: 3 }))
      expect(yield* behind(4)).toEqual(Option.none())
      expect(yield* behind(5)).toEqual(Option.some({ number: 5 }))
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a sealed step whose rollouts are gone, or that does not decode, is an error with its file and line", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const file = `${directory}/credits/${Journal.fileOf(2)}`
      yield* (yield* open(directory)).seal(2, step)
      const refused = Effect.flatMap(open(directory), (journal) => Effect.flip(journal.sealed(2)))
      expect((yield* refused).message).toMatch(/credits\/step_000002\.jsonl: line 2: rollout a is not in the journal/)
      yield* (yield* open(directory)).append(2, absent(planned({ id: "a" }), { _tag: "NoReward", reward: Number.NaN }))
      expect((yield* refused).message).toMatch(/line 2: rollout a is not in the journal/)
      const written = yield* fs.readFileString(file)
      yield* fs.writeFileString(file, written.replace('"format_version":1', '"format_version":999'))
      expect((yield* refused).message).toMatch(/line 1: format_version: Expected 1, actual 999/)
      yield* fs.writeFileString(file, written.replace("refKl", "kl"))
      expect((yield* refused).message).toMatch(/line 2: credit\.claims\.1\.stream/)
      yield* fs.writeFileString(file, "{}\n")
      expect((yield* refused).message).toMatch(/line 1: /)
      const odd = { claims: [{ stream: "rl", over: "sampled", values: "1" as unknown as number, writer: "" } as const] }
      const unwritten = yield* Effect.flip((yield* open(directory)).seal(3, { items: [scored("odd", odd)], state: {} }))
      expect(unwritten.message).toMatch(/step 3 cannot be written down/)
      expect(yield* fs.exists(`${directory}/credits/${Journal.fileOf(3)}`)).toBe(false)
    }).pipe(Effect.provide(NodeContext.layer))
  )

  it.scoped("a sealed step that lost, doubled or mixed up whole lines is an error, and not a smaller step", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const first = yield* open(directory)
      for (const id of ["a", "b"]) yield* first.append(2, rollout({ id }))
      yield* first.append(2, absent(planned({ id: "gone" }), { _tag: "NoReward", reward: Number.NaN }))
      yield* first.seal(2, step)
      const file = `${directory}/credits/step_000002.jsonl`
      const [head, a, gone, b] = (yield* fs.readFileString(file)).trimEnd().split("\n")
      for (const lines of [[head], [head, a, gone], [head, a, gone, b, b], [head, b, gone, a]]) {
        yield* fs.writeFileString(file, `${lines.join("\n")}\n`)
        const { message } = yield* Effect.flip(Effect.flatMap(open(directory, 2), (journal) => journal.sealed(2)))
        expect(message).toContain(
          `its ${lines.length - 1} lines are not those of the 3 rollouts in ${directory}/rollouts`
        )
        expect(message).toMatch(/take it away to score the step again$/)
      }
    }).pipe(Effect.provide(NodeContext.layer))
  )

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
      const rollouts = `${directory}/rollouts`
      const file = `${rollouts}/${Journal.fileOf(1)}`
      const first = yield* open(directory)
      for (const id of ["c", "a"]) yield* first.append(1, rollout({ id }))
      const second = yield* open(directory)
      yield* second.append(1, rollout({ id: "b" }))
      yield* second.seal(1, { items: ids.map((id) => scored(id, Credit.empty)), state: {} })
      const lines = (yield* fs.readFileString(file)).trimEnd().split("\n")
      expect(lines.map((line) => JSON.parse(line).id)).toEqual(ids)
      expect(yield* fs.readDirectory(rollouts)).toEqual([Journal.fileOf(1)])
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
      const file = `${directory}/rollouts/${Journal.fileOf(1)}`
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
      yield* open(directory)
      yield* fs.writeFileString(`${directory}/rollouts/${Journal.fileOf(3)}`, '{"_tag":"Rollout"}\n')
      const exit = yield* Effect.exit(open(directory))
      expect(Exit.isFailure(exit) && String(exit.cause)).toMatch(/step_000003\.jsonl: line 1:/)
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
