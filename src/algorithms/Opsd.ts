/**
 * OPSD, on-policy self-distillation: OPD whose teacher is the policy itself after a demonstration, so that it learns to
 * write without the demonstration what it would write with it: log π(token) − log π(token | demonstration), on what it
 * sampled without (arXiv 2601.18734, its objective on sampled tokens).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as DependentSet from "../DependentSet.ts"
import { Inference } from "../Inference.ts"
import { Renderer } from "../Renderer.ts"
import type { Rollout } from "../Rollout.ts"
import { demonstrationOf, Template, withDemonstration } from "./internal/demonstration.ts"
import { scoredBy } from "./internal/reference.ts"

/** On-policy self-distillation. @category algorithms */
export default Algorithm.define({
  type: "opsd",
  actionLoss: "refKl",
  dependsOn: DependentSet.self,
  Config: Schema.Struct({
    demo_key: Schema.optionalWith(Schema.NonEmptyString, { exact: true, default: () => "demonstration" }),
    template: Template
  }),
  hooks: ({ demo_key, template }) =>
    Effect.gen(function* () {
      const policy = yield* Inference
      const { render } = yield* Renderer
      return {
        scoreRollout: (rollout: Rollout) => {
          const content = withDemonstration(template, demonstrationOf(rollout, demo_key))
          return scoredBy(policy, rollout, render([{ role: "system", content }]).tokenIds)
        }
      }
    })
})
