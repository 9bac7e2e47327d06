import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Engine from "../../src/Trainer/Engine.ts"
import type { DType } from "../../src/Trainer/Native.ts"
import { adminKey, asAdmin, changed, ids, policy, serve } from "./kit.ts"

const ask = { prompt: "the sea was calm", seed: 5, max_tokens: 24, logprobs: 0 }
const query = "model.layers.0.self_attn.q_proj"
const down = "model.layers.2.mlp.down_proj"

const numbers = (length: number, seed: number) =>
  Float32Array.from({ length }, (_, at) => Math.fround(Math.sin(at * 0.7 + seed) / 8))

const half = (value: number) => (new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16) & 0xffff

interface Written {
  readonly name: string
  readonly shape: ReadonlyArray<number>
  readonly values: Float32Array
  readonly dtype?: DType
}

const safetensors = (tensors: ReadonlyArray<Written>): Uint8Array => {
  const header: Record<string, unknown> = {}
  const parts: Array<Uint8Array> = []
  let at = 0
  for (const { dtype = "F32", name, shape, values } of tensors) {
    const typed = dtype === "BF16" ? Uint16Array.from(values, half) : values
    const bytes = new Uint8Array(typed.buffer)
    header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] }
    parts.push(bytes)
    at += bytes.length
  }
  const json = new TextEncoder().encode(JSON.stringify(header))
  const length = new Uint8Array(8)
  new DataView(length.buffer).setBigUint64(0, BigInt(json.length), true)
  return Buffer.concat([length, json, ...parts])
}

const config = {
  peft_type: "LORA",
  r: 2,
  lora_alpha: 6,
  target_modules: [`${query}`, "layers.2.mlp.down_proj"],
  bias: "none"
}

const matrices = (prefix = "base_model.model.", infix = ""): ReadonlyArray<Written> => [
  { name: `${prefix}${query}${infix}.lora_A.weight`, shape: [2, 128], values: numbers(256, 1) },
  { name: `${prefix}${query}${infix}.lora_B.weight`, shape: [128, 2], values: numbers(256, 2) },
  { name: `${prefix}${down}${infix}.lora_A.weight`, shape: [2, 320], values: numbers(640, 3) },
  { name: `${prefix}${down}${infix}.lora_B.weight`, shape: [128, 2], values: numbers(256, 4) }
]

const adapter = (settings: object, tensors: ReadonlyArray<Written>) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const directory = yield* fs.makeTempDirectoryScoped()
    yield* fs.writeFileString(`${directory}/adapter_config.json`, JSON.stringify({ ...config, ...settings }))
    yield* fs.writeFile(`${directory}/adapter_model.safetensors`, safetensors(tensors))
    return directory
  })

/** W + s·B·A, element by element. */
const mergedByHand = (engine: Engine.Engine, scale: number, tensors: ReadonlyArray<Written>) =>
  Effect.forEach(
    [0, 2],
    (first) =>
      Effect.gen(function* () {
        const [A, B] = [tensors[first]!, tensors[first + 1]!]
        const name = `${first === 0 ? query : down}.weight`
        const [r, columns] = A.shape as [number, number]
        const weight = yield* engine.readTensor(name)
        const merged = weight.map((value, at) => {
          const [row, column] = [Math.floor(at / columns), at % columns]
          let sum = 0
          for (let k = 0; k < r; k++) sum += B.values[row * r + k]! * A.values[k * columns + column]!
          return value + scale * sum
        })
        yield* engine.writeTensor(name, merged)
      }),
    { discard: true }
  )

interface Choice {
  readonly text: string
  readonly logprobs: { readonly token_logprobs: ReadonlyArray<number> }
}

/** The same text with nearly the same log-probabilities: B·(A·x) and (B·A)·x differ in the last digits. */
const expectNear = (one: unknown, other: unknown) => {
  const [a, b] = [one as Choice, other as Choice]
  expect(a.text).toBe(b.text)
  a.logprobs.token_logprobs.forEach((value, at) => {
    expect(value).toBeCloseTo(b.logprobs.token_logprobs[at]!, 4)
  })
}

const firstOf = ({ body }: { readonly body: { readonly choices: ReadonlyArray<unknown> } }) => body.choices[0]

layer(NodeContext.layer)("the admin routes", (it) => {
  const routes = [
    ["/pause", {}],
    ["/resume", {}],
    ["/update_weights", { weight_dir: policy }],
    ["/load_lora_adapter", { lora_name: "a", lora_path: "b" }],
    ["/v1/load_lora_adapter", { lora_name: "a", lora_path: "b" }],
    ["/unload_lora_adapter", { lora_name: "a" }],
    ["/v1/unload_lora_adapter", { lora_name: "a" }]
  ] as const

  it.scoped("are off without a key of their own, and say how they are opened", () =>
    Effect.gen(function* () {
      const { call } = yield* serve({ adminKey: undefined })
      for (const [path, body] of routes) {
        const answer = yield* call(path, body, asAdmin)
        expect([path, answer.status, answer.body.error.type]).toEqual([path, 403, "permission_error"])
        expect(answer.body.error.message).toContain("--admin-key-var")
      }
    })
  )

  it.scoped("want that key", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      for (const [path, body] of routes) {
        for (const headers of [{}, { authorization: `Bearer ${adminKey}x` }]) {
          expect((yield* call(path, body, headers as Record<string, string>)).status).toBe(401)
        }
      }
      expect((yield* call("/v1/models")).body.data).toHaveLength(1)
    })
  )

  it.scoped("pause holds new requests until resume, which may be said twice", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const before = firstOf(yield* call("/v1/completions", ask))
      expect((yield* call("/pause", {}, asAdmin)).body).toEqual({ status: "paused" })
      const held = yield* Effect.fork(call("/v1/completions", ask))
      yield* Effect.repeat(call("/load"), { until: ({ body }) => body.server_load === 1 })
      expect(yield* Fiber.poll(held)).toMatchObject({ _tag: "None" })
      expect((yield* call("/resume", {}, asAdmin)).body).toEqual({ status: "resumed" })
      yield* call("/resume", {}, asAdmin)
      expect(firstOf(yield* Fiber.join(held))).toEqual(before)
    })
  )

  it.scoped("new weights serve the requests that come after them; one that runs ends on its own", () =>
    Effect.gen(function* () {
      const fresh = yield* changed({
        weights: (engine) =>
          Effect.flatMap(engine.readTensor("model.norm.weight"), (norm) =>
            engine.writeTensor(
              "model.norm.weight",
              norm.map((value) => value * 0.5)
            )
          )
      })
      const { call, url } = yield* serve()
      const long = { ...ask, max_tokens: 400, ignore_eos: true }
      const before = firstOf(yield* call("/v1/completions", long))

      // A stream that has begun is one that runs.
      const stream = yield* Effect.promise(() =>
        fetch(`${url}/v1/completions`, {
          method: "POST",
          body: JSON.stringify({ ...long, stream: true, return_token_ids: true })
        })
      )
      const reader = stream.body!.getReader()
      const chunks = [yield* Effect.promise(() => reader.read())]
      expect((yield* call("/update_weights", { weight_dir: fresh }, asAdmin)).body).toEqual({ status: "ok" })
      while (chunks.at(-1)!.done === false) chunks.push(yield* Effect.promise(() => reader.read()))
      const text = chunks.map(({ value }) => new TextDecoder().decode(value)).join("")
      const logprobs = Array.from(text.matchAll(/"token_logprobs":\[([^\]]*)\]/g), ([, list]) => list).join(",")
      expect(JSON.parse(`[${logprobs}]`)).toEqual(
        (before as { readonly logprobs: { readonly token_logprobs: unknown } }).logprobs.token_logprobs
      )

      const after = firstOf(yield* call("/v1/completions", long))
      expect(after).not.toEqual(before)
      const other = yield* serve({ model: fresh })
      expect(firstOf(yield* other.call("/v1/completions", long))).toEqual(after)
    })
  )

  it.scoped("weights of a model that computes otherwise are refused, though their tensors fit", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const before = firstOf(yield* call("/v1/completions", ask))
      const weight_dir = yield* changed({ config: { rope_theta: 5 } })
      const { body, status } = yield* call("/update_weights", { weight_dir }, asAdmin)
      expect([status, body.error.param]).toEqual([400, "weight_dir"])
      expect(body.error.message).toMatch(
        /config\.json: is of another model: ropeTheta is 5, and the model that is served/
      )
      expect(firstOf(yield* call("/v1/completions", ask))).toEqual(before)
    })
  )

  it.scoped("weights that do not fit, or hold what is no number, change nothing and are told by tensor", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const { call } = yield* serve()
      const before = firstOf(yield* call("/v1/completions", ask))
      const broken = yield* fs.makeTempDirectoryScoped()
      const engine = yield* Engine.open(policy, { threads: 1, trainable: false })
      const all = yield* Effect.forEach(engine.tensors, ({ name, shape }) =>
        Effect.map(engine.readTensor(name), (values) => ({ name, shape, values }))
      )
      const update = Effect.map(call("/update_weights", { weight_dir: broken }, asAdmin), ({ body, status }) => [
        status,
        body.error.param,
        body.error.message
      ])
      const write = (tensors: ReadonlyArray<Written>) =>
        fs.writeFile(`${broken}/model.safetensors`, safetensors(tensors))
      yield* write(all.slice(1))
      expect(yield* update).toEqual([400, "weight_dir", expect.stringContaining(all[0]!.name)])
      yield* write(
        all.map((tensor, at) => (at === 3 ? { ...tensor, values: tensor.values.map(() => Number.NaN) } : tensor))
      )
      expect(yield* update).toEqual([400, "weight_dir", expect.stringMatching(`${all[3]!.name} holds NaN`)])
      expect(firstOf(yield* call("/v1/completions", ask))).toEqual(before)
    })
  )

  it.scoped("SAVE-06: an adapter is a model beside the base: W + (alpha / r)·B·A, and the base's bits stay", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const before = firstOf(yield* call("/v1/completions", ask))
      const directory = yield* adapter({}, matrices())
      const load = (lora_path: string) => call("/load_lora_adapter", { lora_name: "sharper", lora_path }, asAdmin)
      expect((yield* load(directory)).body).toEqual({ status: "ok" })
      const { data } = (yield* call("/v1/models")).body
      expect(data[1]).toMatchObject({ id: "sharper", parent: "policy", root: directory, max_model_len: 512 })

      const byHand = yield* serve({
        model: yield* changed({ weights: (engine) => mergedByHand(engine, 3, matrices()) })
      })
      const merged = firstOf(yield* call("/v1/completions", { ...ask, model: "sharper" }))
      expectNear(merged, firstOf(yield* byHand.call("/v1/completions", ask)))
      expect(merged).not.toEqual(before)
      expect(firstOf(yield* call("/v1/completions", { ...ask, model: "policy" }))).toEqual(before)

      const rs = yield* adapter({ use_rslora: true }, matrices("", ".base_layer"))
      yield* load(rs)
      const stable = yield* serve({
        model: yield* changed({ weights: (engine) => mergedByHand(engine, 6 / Math.SQRT2, matrices()) })
      })
      expectNear(
        firstOf(yield* call("/v1/completions", { ...ask, model: "sharper" })),
        firstOf(yield* stable.call("/v1/completions", ask))
      )
      expect((yield* call("/v1/models")).body.data).toHaveLength(2)

      expect((yield* call("/v1/unload_lora_adapter", { lora_name: "sharper" }, asAdmin)).status).toBe(200)
      expect((yield* call("/v1/completions", { ...ask, model: "sharper" })).status).toBe(404)
      expect((yield* call("/unload_lora_adapter", { lora_name: "sharper" }, asAdmin)).status).toBe(404)
      expect((yield* call("/unload_lora_adapter", { lora_name: "policy" }, asAdmin)).status).toBe(400)
      expect(firstOf(yield* call("/v1/completions", ask))).toEqual(before)
    })
  )

  it.scoped("SAVE-05: an adapter is merged in whatever halves it is stored", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const rounded = matrices().map((tensor) => ({
        ...tensor,
        values: tensor.values.map((value) => new Float32Array(Uint32Array.of(half(value) << 16).buffer)[0]!)
      }))
      for (const [name, tensors] of [
        ["whole", rounded],
        ["half", matrices().map((tensor) => ({ ...tensor, dtype: "BF16" as const }))]
      ] as const) {
        const lora_path = yield* adapter({}, tensors)
        expect((yield* call("/load_lora_adapter", { lora_name: name, lora_path }, asAdmin)).status).toBe(200)
      }
      expect(firstOf(yield* call("/v1/completions", { ...ask, model: "half" }))).toEqual(
        firstOf(yield* call("/v1/completions", { ...ask, model: "whole" }))
      )
    })
  )

  it.scoped("adapters that are asked at the same time answer as alone, and follow the base to new weights", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      for (const [name, settings] of [
        ["one", {}],
        ["other", { lora_alpha: 12 }]
      ] as const) {
        const lora_path = yield* adapter(settings, matrices())
        yield* call("/v1/load_lora_adapter", { lora_name: name, lora_path }, asAdmin)
      }
      const answer = (model: string) => Effect.map(call("/v1/completions", { ...ask, model }), firstOf)
      const names = ["one", "policy", "other"]
      const alone = yield* Effect.forEach(names, answer)
      expect(new Set(alone.map((choice) => JSON.stringify(choice))).size).toBe(3)
      const together = yield* Effect.forEach([...names, ...names], answer, { concurrency: "unbounded" })
      expect(together).toEqual([...alone, ...alone])

      const fresh = yield* changed({ weights: (engine) => mergedByHand(engine, 1, matrices()) })
      yield* call("/update_weights", { weight_dir: fresh }, asAdmin)
      const byHand = yield* serve({
        model: yield* changed({ weights: (engine) => mergedByHand(engine, 4, matrices()) })
      })
      expectNear(yield* answer("one"), firstOf(yield* byHand.call("/v1/completions", ask)))
    })
  )

  it.scoped("an adapter that does not fit is refused by the name of its tensor, or of its setting", () =>
    Effect.gen(function* () {
      const { call } = yield* serve()
      const [A, B, ...others] = matrices() as [Written, Written, ...ReadonlyArray<Written>]
      const cases: ReadonlyArray<readonly [settings: object, tensors: ReadonlyArray<Written>, message: RegExp]> = [
        [{}, [A, ...others], /q_proj has no lora_B: tensor "base_model\.model\..*q_proj\.lora_B\.weight" is missing/],
        [
          {},
          others,
          /tensor "base_model\.model\.model\.layers\.0\.self_attn\.q_proj\.lora_A\.weight" is missing: target_modules/
        ],
        [
          {},
          [{ ...A, shape: [1, 256] }, B, ...others],
          /q_proj\.lora_A\.weight" has shape \[1, 256\]; r 2 .* ask for \[2, 128\]/
        ],
        [{ r: 4 }, matrices(), /q_proj\.lora_A\.weight" has shape \[2, 128\]; r 4/],
        [
          {},
          [...matrices(), { ...A, name: "base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight" }],
          /layers\.9.*which the model does not have/
        ],
        [
          {},
          [...matrices(), { ...A, name: "model.norm.weight" }],
          /"model\.norm\.weight" is no part of a LoRA adapter/
        ],
        [{ target_modules: ["w1"] }, matrices(), /target_modules names no module/],
        // a pattern that would be tried for years
        [
          { target_modules: "(.|.)*!" },
          matrices(),
          /adapter_config\.json: target_modules: the pattern takes longer than 1000 ms/
        ],
        [{ target_modules: "(" }, matrices(), /adapter_config\.json: target_modules: Invalid regular expression/],
        [{}, [{ ...A, values: A.values.map(() => Number.NaN) }, B, ...others], /q_proj\.lora_A\.weight holds NaN/],
        [{}, [...matrices(), ...matrices("")], /"model\..*" and "base_model\..*" are for the same matrix/],
        [{ target_modules: [query] }, matrices(), /down_proj, which target_modules does not name/],
        [{ use_dora: true }, matrices(), /adapter_config\.json: is no .*: use_dora: Expected false, actual true$/],
        [{ modules_to_save: ["lm_head"] }, matrices(), /modules_to_save/],
        [{ trainable_token_indices: [1] }, matrices(), /trainable_token_indices: is not supported/],
        [{ init_lora_weights: "pissa_niter_4" }, matrices(), /init_lora_weights: "pissa_niter_4" is not supported/],
        [{ r: 0, lora_alpha: "x" }, matrices(), /r: .*lora_alpha: /]
      ]
      for (const [settings, tensors, message] of cases) {
        const lora_path = yield* adapter(settings, tensors)
        const { body, status } = yield* call("/load_lora_adapter", { lora_name: "bad", lora_path }, asAdmin)
        expect(body.error?.message).toMatch(message)
        expect([status, body.error.param]).toEqual([400, "lora_path"])
      }
      expect((yield* call("/v1/models")).body.data).toHaveLength(1)
      expect((yield* call("/load_lora_adapter", { lora_name: "policy", lora_path: "x" }, asAdmin)).status).toBe(400)
    })
  )
})

layer(NodeContext.layer)("a client that goes away", (it) => {
  it.scoped("API-03: takes its generation along, whole or streamed", () =>
    Effect.gen(function* () {
      // So many positions that a generation that is not stopped does not end within this test.
      const model = yield* changed({ config: { max_position_embeddings: 2 ** 20 } })
      const { call, url } = yield* serve({ model, limits: { running: 1 } })
      const endless = { prompt: ids("q"), max_tokens: 2 ** 20, ignore_eos: true }
      for (const stream of [false, true]) {
        const leaving = new AbortController()
        const request = fetch(`${url}/v1/completions`, {
          method: "POST",
          body: JSON.stringify({ ...endless, stream }),
          signal: leaving.signal
        })
        request.catch(() => {})
        yield* Effect.repeat(call("/load"), { until: ({ body }) => body.server_load === 1 })
        if (stream) {
          const response = yield* Effect.promise(() => request)
          yield* Effect.promise(() => response.body!.getReader().read())
        }
        leaving.abort()
        yield* Effect.repeat(call("/load"), { until: ({ body }) => body.server_load === 0 })
        // The one place is free again.
        expect((yield* call("/v1/completions", ask)).status).toBe(200)
      }
    })
  )

  it.scoped("closing the server ends what still runs", () =>
    Effect.gen(function* () {
      const model = yield* changed({ config: { max_position_embeddings: 2 ** 20 } })
      const request = yield* Effect.scoped(
        Effect.gen(function* () {
          const { call } = yield* serve({ model })
          const running = yield* Effect.forkDaemon(
            Effect.exit(call("/v1/completions", { prompt: ids("q"), max_tokens: 2 ** 20, ignore_eos: true }))
          )
          yield* Effect.repeat(call("/load"), { until: ({ body }) => body.server_load === 1 })
          return running
        })
      )
      expect((yield* Fiber.join(request))._tag).toBe("Failure")
    })
  )
})
