import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { absent, stringify } from "../../src/Rollout.ts"
import * as Trace from "../../src/Trace.ts"
import { planned, rollout } from "../../src/testing/index.ts"
import { run } from "./kit.ts"

const turn = (
  prompt: ReadonlyArray<ReadonlyArray<number>>,
  id: number,
  more: Partial<Trace.Turn> = {}
): Trace.Turn => ({
  promptIds: Int32Array.from(prompt.flat()),
  messageIndices: prompt.flatMap((ids, index) => ids.map(() => index)),
  isContent: prompt.flatMap((ids) => ids.map(() => 1)),
  completionIds: Int32Array.of(id, 99),
  logprobs: [-1, -1],
  policyVersion: 3,
  message: { role: "assistant", content: `answer ${id}` },
  ...more
})
const say = (content: string) => ({ role: "user", content }) as const
const answer = (id: number) => ({ role: "assistant", content: `answer ${id}` }) as const

/** Two turns, of which the second was asked again and replaced; then another way, and a conversation beside it. */
const forked = (() => {
  const commit = (trace: Trace.Trace, messages: Parameters<typeof Trace.prepare>[1], given: Trace.Turn) =>
    Either.getOrThrow(Trace.commit(Trace.prepare(trace, messages), given))
  const one = commit(Trace.empty, [say("hello\nthere")], turn([[1, 2]], 10))
  const longer = [say("hello\nthere"), answer(10), say("go on")]
  const two = commit(one, longer, turn([[1, 2], [10, 99], [4]], 11))
  const three = commit(two, longer, turn([[1, 2], [10, 99], [4]], 12, { replaces: 3 }))
  const other = [...longer.slice(0, 2), say("\u001b[31mno")]
  const four = commit(three, other, turn([[1, 2], [10, 99], [5]], 13, { finishReason: "length" }))
  return Trace.seal(commit(four, [say("aside")], turn([[6]], 14)), { reason: "max_turns", by: "environment" })
})()

const tree = `r1  reward 0.25  ended by environment: max_turns  5 turns  3 branches  prompt 18 (13 cached) + 10 sampled
├─ 0 user          2         “hello\\nthere”
│  1 assistant     0 + 2     (turn 1, prompt 2, v3) “answer 10”
│  ├─ 2 user          1         “go on”
│  │  ├─ 3 assistant     2         (turn 2, prompt 5 (4 cached), v3, abandoned: never reached its caller) “answer 11”
│  │  └─ 4 assistant     0 + 2     (turn 3, prompt 5 (5 cached), v3, replaces message 3) “answer 12”
│  └─ 5 user          1         [fork] “\\x1b[31mno”
│     6 assistant     0 + 2     (turn 4, prompt 5 (4 cached), v3, length) “answer 13”
└─ 7 user          1         [new root] “aside”
   8 assistant     0 + 2     (turn 5, prompt 1, v3) “answer 14”
branch 1  4 messages, 2 turns, 7 tokens, 4 sampled
branch 2  4 messages, 2 turns, 7 tokens, 2 sampled (its first 2 messages lie on an earlier branch)
branch 3  2 messages, 1 turn, 3 tokens, 2 sampled
metrics  drift 0
`

const trace = rollout({ id: "r1", reward: 0.25, metrics: { drift: 0 }, trace: forked })
const file = `${stringify(trace)}\n`
const other = `${stringify(rollout({ id: "r2", reward: 1 }))}\n`

describe("primerl trace", () => {
  it.effect("prints the one trace of a file as a tree, plain in a pipe", () =>
    Effect.gen(function* () {
      const { code, error, out } = yield* run(["trace", "t.jsonl"], { "t.jsonl": file })
      expect([code, error]).toEqual([0, ""])
      expect(out).toBe(tree)
    })
  )

  it.effect("lists the traces of a file, also those that do not count, and shows the one that is named", () =>
    Effect.gen(function* () {
      const gone = stringify(absent(planned({ id: "r3" }), { _tag: "Cancelled", why: "stale" }))
      const files = { "t.jsonl": `${file}${other}${gone}\n` }
      const list = yield* run(["trace", "t.jsonl"], files)
      expect(list.out.split("\n")).toEqual([
        "r1  reward 0.25  ended by environment: max_turns  5 turns  3 branches  prompt 18 (13 cached) + 10 sampled",
        "r2  reward 1  ended: done  1 turn  1 branch  prompt 2 + 2 sampled",
        "r3  does not count: cancelled: stale",
        "",
        "3 traces; --rollout ID shows one as a tree",
        ""
      ])
      expect((yield* run(["trace", "t.jsonl", "--rollout", "r1"], files)).out).toBe(tree)
      const missing = yield* run(["trace", "t.jsonl", "--rollout", "r9"], files)
      expect(missing.code).not.toBe(0)
      expect(missing.text).toContain('there is no rollout "r9"')
    })
  )

  it.effect("takes files of traces alone, of any version, and adds up their times", () =>
    Effect.gen(function* () {
      const timed = Trace.timed(Trace.timed(forked, { name: "generation", startMs: 0, endMs: 1500, node: 1 }), {
        name: "tools",
        startMs: 1500,
        endMs: 1520
      })
      const { out } = yield* run(["trace", "t.jsonl"], { "t.jsonl": Trace.stringify(timed) })
      expect(out).toMatch(/^t\.jsonl:1 {2}ended by environment: max_turns/)
      expect(out.split("\n").at(-2)).toBe("time  generation 1.5 s  tools 20 ms")
      const later = '{"kind":"trace","version":9,"id":"x","messages":[{"kind":"image","url":"cat.png"}]}'
      expect((yield* run(["trace", "t.jsonl"], { "t.jsonl": later })).out).toContain("image")
    })
  )

  it.effect("prints one JSON document for programs", () =>
    Effect.gen(function* () {
      const { out } = yield* run(["trace", "t.jsonl", "--json"], { "t.jsonl": file + other })
      const document = JSON.parse(out) as ReadonlyArray<Record<string, unknown>>
      expect(document.map(({ id, line, reward }) => [id, line, reward])).toEqual([
        ["r1", 1, 0.25],
        ["r2", 2, 1]
      ])
      expect(document[0]).toMatchObject({
        stop: { reason: "max_turns", by: "environment" },
        usage: { promptTokens: 18, cachedTokens: 13, completionTokens: 10 },
        branches: [{ path: [0, 1, 2, 4], sampled: 4, shared: 0 }, { shared: 2 }, { shared: 0 }]
      })
    })
  )

  it.effect("says file and line of what it cannot read", () =>
    Effect.gen(function* () {
      const broken = yield* run(["trace", "t.jsonl"], { "t.jsonl": `${file}{"step":1}\n${other}` })
      expect(broken.code).not.toBe(0)
      expect(broken.text).toContain("t.jsonl:2: not a trace: messages: is missing; a run keeps its rollouts in")
      expect((yield* run(["trace", "none.jsonl"], {})).text).toContain("none.jsonl: ")
      expect((yield* run(["trace", "e.jsonl"], { "e.jsonl": "\n" })).text).toContain("there are no traces in it")
      const cut = yield* run(["trace", "t.jsonl"], { "t.jsonl": file + other.slice(0, 50) })
      expect([cut.code, cut.out]).toEqual([0, tree])
      expect(cut.error).toContain("t.jsonl:2: the last line is cut short and left out")
    })
  )
})
