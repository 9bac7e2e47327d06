/** Bodies that no client would send, drawn at random from a seed: each has an answer in its dialect, and nothing else. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FastCheck from "effect/FastCheck"
import * as Trace from "../../src/Trace.ts"
import { layer, open, type Rollout } from "./kit.ts"

const odd = FastCheck.oneof(
  FastCheck.constantFrom(
    null,
    0,
    -1,
    2 ** 31,
    1e300,
    -0,
    "",
    "\ud800",
    "<|im_end|>",
    "<tool_call>",
    "\u0000",
    [],
    {},
    [[]],
    [null],
    true
  ),
  FastCheck.string({ unit: "binary", maxLength: 12 }),
  FastCheck.jsonValue({ maxDepth: 3 })
)
type Json = Record<string | number, unknown>

/** Every place in a body, and for each object two more: a key that nobody knows and one that JavaScript does. */
const places = (value: unknown): ReadonlyArray<readonly [of: Json, key: string]> =>
  typeof value !== "object" || value === null
    ? []
    : [
        ...Object.entries(value).flatMap(([key, inner]) => [[value as Json, key] as const, ...places(inner)]),
        ...(Array.isArray(value) ? [] : [[value as Json, "x"] as const, [value as Json, "__proto__"] as const])
      ]

/** A body with some of its places changed, or taken out where the value is undefined. */
const changed = (body: object, changes: ReadonlyArray<readonly [place: number, value: unknown]>): object => {
  const copy = structuredClone(body)
  for (const [place, value] of changes) {
    const all = places(copy)
    const [of, key] = all[place % all.length]!
    if (value === undefined && !Array.isArray(of)) delete of[key]
    else Object.defineProperty(of, key, { value: value ?? null, enumerable: true, configurable: true, writable: true })
  }
  return copy
}

const parameters = { type: "object", properties: { at: { type: "integer" } } }
const dialects = [
  {
    path: "/chat/completions",
    body: {
      model: "any",
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: [{ type: "text", text: "hi" }] },
        {
          role: "assistant",
          content: null,
          reasoning_content: "hm",
          tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: '{"at":1}' } }]
        },
        { role: "tool", tool_call_id: "c", content: "5<|im_end|>" }
      ],
      tools: [{ type: "function", function: { name: "f", description: "looks", parameters } }],
      tool_choice: "auto",
      stream: false,
      stream_options: { include_usage: true },
      max_tokens: 50,
      temperature: 0.5,
      n: 1,
      logprobs: true,
      top_logprobs: 1,
      stop: ["END"]
    }
  },
  {
    path: "/responses",
    body: {
      input: [
        { role: "user", content: [{ type: "input_text", text: "hi" }] },
        { type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
        { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "c", output: "5" }
      ],
      instructions: "Be brief.",
      tools: [{ type: "function", name: "f", parameters }],
      stream: true,
      max_output_tokens: 50,
      include: ["message.output_text.logprobs"],
      text: { format: { type: "text" } }
    }
  },
  {
    path: "/messages",
    body: {
      system: [{ type: "text", text: "Be brief." }],
      messages: [
        { role: "user", content: "hi" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "" },
            { type: "text", text: "I look." },
            { type: "tool_use", id: "c", name: "f", input: { at: 1 } }
          ]
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "5" }] }] }
      ],
      tools: [{ name: "f", input_schema: parameters }],
      tool_choice: { type: "auto" },
      stream: true,
      max_tokens: 50,
      stop_sequences: ["END"]
    }
  }
] as const

/** As JSON, and some of it cut. */
const sent = (body: object) =>
  FastCheck.tuple(
    FastCheck.array(FastCheck.tuple(FastCheck.nat(), FastCheck.option(odd, { nil: undefined })), { maxLength: 3 }),
    FastCheck.oneof({ weight: 9, arbitrary: FastCheck.constant(1) }, FastCheck.double({ min: 0, max: 1, noNaN: true }))
  ).map(([changes, share]) => {
    const json = JSON.stringify(changed(body, changes))
    return json.slice(0, Math.ceil(json.length * share))
  })

const inEnvelope = (path: string, error: Record<string, unknown>) => {
  expect(typeof (error.error as { readonly message?: unknown }).message).toBe("string")
  expect(error.type).toBe(path === "/messages" ? "error" : undefined)
}

const asked = ({ send }: Rollout, path: string, body: string) =>
  Effect.gen(function* () {
    const response = yield* send(path, body)
    const text = yield* Effect.promise(() => response.text())
    expect([200, 400]).toContain(response.status)
    if (response.headers.get("content-type") === "text/event-stream") {
      expect(response.status).toBe(200)
      expect(text).toMatch(/\[DONE\]|response\.completed|response\.incomplete|message_stop/)
      return response.status
    }
    const answer = JSON.parse(text)
    if (response.status === 400) inEnvelope(path, answer)
    else expect(answer.error ?? null).toBeNull()
    return response.status
  })

describe("bodies drawn at random", () => {
  for (const { body, path } of dialects) {
    it.scoped(`${path}: each has an answer of its dialect, and no other rollout hears of it`, () =>
      Effect.gen(function* () {
        const bodies = FastCheck.sample(sent(body), { seed: 17, numRuns: 120 })
        const bystander = yield* open()
        yield* bystander.call("/chat/completions", { messages: [{ role: "user", content: "before" }] })
        const before = (yield* bystander.session.progress).trace
        const statuses = yield* Effect.forEach(
          bodies,
          (one) => Effect.flatMap(open(), (rollout) => asked(rollout, path, one)),
          {
            concurrency: 8
          }
        )
        // both kinds must come about, or nothing is tried
        expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(10)
        expect(statuses.filter((status) => status === 400).length).toBeGreaterThan(10)
        expect((yield* bystander.session.progress).trace).toBe(before)
        const last = yield* bystander.call("/messages", {
          max_tokens: 5,
          messages: [{ role: "user", content: "after" }]
        })
        expect(last.status).toBe(200)
      }).pipe(Effect.provide(layer()))
    )
  }

  it.scoped("in one rollout, all at once: each turn is a branch of its own words, whatever else is asked", () =>
    Effect.gen(function* () {
      const rollout = yield* open()
      const drawn = dialects.flatMap(({ body, path }) =>
        FastCheck.sample(sent(body), { seed: 23, numRuns: 40 }).map((one) => [path, one] as const)
      )
      yield* Effect.forEach(drawn, ([path, one]) => asked(rollout, path, one), { concurrency: 16 })
      const { failure, trace } = yield* rollout.session.progress
      expect(failure).toBeUndefined()
      for (const branch of Trace.branches(trace)) {
        const last = trace.nodes[branch.path.at(-1)!]!
        expect([last.sampled, last.message.content]).toEqual([true, "ok"])
      }
    }).pipe(Effect.provide(layer()))
  )
})
