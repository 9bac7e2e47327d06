/**
 * OPD, on-policy distillation: each sampled token minimises the reverse KL to a teacher, log π(token) − log teacher(token),
 * estimated on what the policy wrote itself; the teacher reads the rollout's own tokens (arXiv 2306.13649, §3, reverse KL
 * on the student's samples).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as DependentSet from "../DependentSet.ts"
import { Endpoint, Endpoints } from "../Endpoints.ts"
import type { Rollout } from "../Rollout.ts"
import { scoredBy } from "./internal/reference.ts"

/** On-policy distillation. @category algorithms */
export default Algorithm.define({
  type: "opd",
  actionLoss: "refKl",
  dependsOn: DependentSet.self,
  Config: Schema.Struct({ teacher: Endpoint }),
  hooks: ({ teacher }) =>
    Effect.gen(function* () {
      const endpoints = yield* Endpoints
      const model = yield* endpoints.connect(teacher)
      return { scoreRollout: (rollout: Rollout) => scoredBy(model, rollout) }
    })
})
