/** What the types promise: this file is compiled, never run. */
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as Algorithm from "../src/Algorithm.ts"
import Grpo from "../src/algorithms/Grpo.ts"
import Opd from "../src/algorithms/Opd.ts"
import Rae from "../src/algorithms/Rae.ts"
import Sft from "../src/algorithms/Sft.ts"
import * as Credit from "../src/Credit.ts"
import { Endpoints } from "../src/Endpoints.ts"
import type { Environment } from "../src/Environment.ts"
import { Inference, type InferenceError } from "../src/Inference.ts"
import type { PackedBatch } from "../src/MicroBatch.ts"
import * as Orchestrator from "../src/Orchestrator.ts"
import * as Pipeline from "../src/Pipeline.ts"
import * as Registry from "../src/Registry.ts"
import type { Absent, Ended } from "../src/Rollout.ts"
import { State, type StateError } from "../src/State.ts"

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is =
  <A>() =>
  <B>(_value: B, _same: Equal<A, B>) => {}

// a formula's Layer needs nothing and cannot fail; its config is that of its schema, all of it optional here
is<Layer.Layer<Algorithm.Algorithm>>()(Grpo.layer(), true)
is<Layer.Layer<Algorithm.Algorithm>>()(Grpo.layer({ length_penalty: { type: "linear" } }), true)
is<Layer.Layer<Algorithm.Algorithm>>()(Sft.layer(), true)
// @ts-expect-error no such option
Grpo.layer({ legnth_penalty: { type: "linear" } })
// @ts-expect-error no such option inside
Grpo.layer({ length_penalty: { type: "linear", num_turns_wieght: 1 } })
// @ts-expect-error it takes no options
Sft.layer({ teacher: "x" })

// an algorithm that acquires: what it needs and how it can fail are in its Layer's type, its scope is not
const Distil = Algorithm.define({
  type: "distil",
  actionLoss: "refKl",
  Config: Schema.Struct({ teacher: Schema.String, scale: Schema.optionalWith(Schema.Number, { default: () => 1 }) }),
  hooks: (config) =>
    Effect.gen(function* () {
      is<string>()(config.teacher, true)
      is<number>()(config.scale, true)
      const { score } = yield* Inference
      yield* score(new Int32Array(0))
      yield* (yield* State).cell({ name: "n", schema: Schema.Number, initial: 0 })
      return { scoreRollout: () => Credit.empty }
    })
})
is<Layer.Layer<Algorithm.Algorithm, InferenceError | StateError, Inference | State>>()(
  Distil.layer({ teacher: "t" }),
  true
)
// @ts-expect-error a teacher is required
Distil.layer()

Algorithm.define({
  type: "bare",
  actionLoss: "rl",
  // @ts-expect-error a config is a Schema.Struct: bare fields would make it `any`
  Config: { decay: Schema.Number },
  hooks: () => ({})
})
Algorithm.define({
  type: "hungry",
  actionLoss: "rl",
  // @ts-expect-error a hook may fail, but it may not ask for services: acquire them in `hooks`
  hooks: () => ({ scoreRollout: () => Effect.as(Inference, Credit.empty) })
})

// a registry takes any definition whose Layer asks only for what a run provides
Registry.make([Grpo, Sft, Distil], () => Effect.void)
class Sandbox extends Effect.Tag("Sandbox")<Sandbox, { readonly id: string }>() {}
const Boxed = Algorithm.define({ type: "boxed", actionLoss: "rl", hooks: () => Effect.as(Sandbox, {}) })
// @ts-expect-error no run provides a Sandbox
Registry.make([Boxed], () => Effect.void)

declare const rollouts: Stream.Stream<Ended, "source broke", "files">
is<Stream.Stream<Pipeline.Scored | Absent, "source broke", "files" | Algorithm.Algorithm>>()(
  rollouts.pipe(Pipeline.inDispatchOrder(), Pipeline.score, Pipeline.dependentSets),
  true
)
const math = Pipeline.source({ name: "math", rollouts, algorithm: Grpo.layer() })
const code = Pipeline.source({ name: "code", rollouts, algorithm: Distil.layer({ teacher: "t" }) })
is<Stream.Stream<Pipeline.Compiled | Absent, "source broke", "files">>()(Pipeline.sampled(math), true)
is<
  Stream.Stream<Pipeline.Compiled | Absent, "source broke" | InferenceError | StateError, "files" | Inference | State>
>()(Pipeline.merge(math, code), true)
is<Stream.Stream<PackedBatch, "source broke", "files">>()(
  Pipeline.merge(math).pipe(
    Pipeline.admit([{ name: "any", admits: (members) => members.length > 0 }]),
    Pipeline.batches({ rollouts: 8 }),
    Pipeline.pack({ maxSequenceLength: 64 })
  ),
  true
)

const seats = Algorithm.bySeat({ proposer: Grpo.layer(), solver: Distil.layer({ teacher: "t" }) })
is<Layer.Layer<Algorithm.Algorithm, InferenceError | StateError, Inference | State>>()(seats, true)

// what the sources of a run need and fail with adds up, their frozen models included; scopes are the run's own
declare const environment: Environment
const frozen = Effect.flatMap(Endpoints, ({ connect }) =>
  connect({ name: "big", base_url: ["http://localhost:8000/v1"], timeout_ms: 1, max_retries: 0 })
)
const mixed = Orchestrator.steps({
  steps: 1,
  sources: [
    { environment, algorithm: Grpo.layer() },
    { environment, algorithm: Rae.layer() },
    { environment, algorithm: Opd.layer({ teacher: { name: "big", base_url: "http://localhost:8000/v1" } }) },
    { environment, algorithm: Sft.layer(), model: frozen }
  ]
})
const alone = Orchestrator.steps({ steps: 1, sources: [{ environment, algorithm: Grpo.layer() }] })
type Loop = Stream.Stream.Context<typeof alone>
is<Loop | Endpoints | State>()({} as Stream.Stream.Context<typeof mixed>, true)
is<false>()({} as Scope.Scope extends Stream.Stream.Context<typeof mixed> ? true : false, true)
is<Stream.Stream.Error<typeof alone> | InferenceError | StateError>()({} as Stream.Stream.Error<typeof mixed>, true)
