/** SFT distillation: cross-entropy, −log-probability, on what was sampled; its source is a frozen model that writes well. */
import * as Algorithm from "../Algorithm.ts"
import * as DependentSet from "../DependentSet.ts"

/** SFT distillation. @category algorithms */
export default Algorithm.define({
  type: "sft",
  actionLoss: "ce",
  dependsOn: DependentSet.self,
  check: (_config, { frozen, name }) =>
    frozen
      ? []
      : [
          {
            path: "sampling.source",
            message: `source "${name}" samples from the policy, and sft needs a model to sample from: set sampling.source = { name = "…", base_url = ["…"] }`
          }
        ],
  hooks: () => ({})
})
