/**
 * ECHO: GRPO on what the policy wrote, and α · cross-entropy on what its environment answered, so that it also learns to
 * foresee what its actions bring: L = L_GRPO(actions) + α(role) · L_CE(observations), where the paper has one λ for all
 * roles (arXiv 2605.24517). Observations are the bodies of messages that the policy did not write, from its first response
 * on.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Algorithm from "../Algorithm.ts"
import * as Credit from "../Credit.ts"
import type { Rollout } from "../Rollout.ts"
import Grpo from "./Grpo.ts"
import { Filter, loadFilter, Roles } from "./internal/observations.ts"
import { checkGroup } from "./internal/rewards.ts"

/** ECHO. @category algorithms */
export default Algorithm.define({
  type: "echo",
  actionLoss: "rl",
  Config: Schema.Struct({ ...Grpo.Config.fields, roles: Roles, filter: Schema.optionalWith(Filter, { exact: true }) }),
  check: checkGroup,
  hooks: ({ filter, roles, ...grpo }) =>
    Effect.map(loadFilter(filter), (keep) => ({
      ...Grpo.hooks(grpo),
      scoreRollout: (rollout: Rollout) => Credit.onRoles(rollout, roles, keep?.(rollout))
    }))
})
