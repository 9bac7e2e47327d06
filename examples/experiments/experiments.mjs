// What the experiments of docs/experiments.md compare.
export const heldOut = "eval/reverse-text/reward"

/** Where the address of the teacher goes. */
const opd = "orchestrator.algo.teacher.base_url"
const sampler = "orchestrator.train.sampling.source.base_url"
/** A file laid over base.toml, what is set besides, and the columns of metrics.jsonl that are its curves. */
const arm = (name, file, more) => ({ name, file, sets: [], columns: { [name]: heldOut }, ...more })
const atRates = (name, file, rates, more) =>
  rates.map((rate) => arm(`${name} ${rate}`, file, { sets: [`trainer.optim.lr=${rate}`], ...more }))

/** By name. What has a `title` is drawn; `solved` counts the tasks that a group solves, too. */
export const experiments = {
  "learning-rates": {
    arms: [
      ...atRates("GRPO", "grpo", ["1e-4", "1.5e-4", "2e-4"]),
      ...atRates("OPD", "opd", ["2e-4", "3e-4", "4e-4"], { teacher: opd })
    ]
  },
  distillation: {
    title: "Held-out reward, 8 rollouts a step",
    arms: [arm("GRPO", "grpo"), arm("OPD", "opd", { teacher: opd })]
  },
  imitation: {
    title: "Held-out reward, 8 rollouts a step",
    arms: [arm("SFT distillation", "sft", { teacher: sampler })]
  },
  "self-distillation": { title: "Held-out reward of OPSD", arms: [arm("OPSD", "opsd")] },
  "two-answers": {
    title: "Share of held-out answers that are right",
    solved: true,
    arms: ["grpo", "max_rl"].map((type) =>
      arm(type, "two-answers", {
        sets: [`orchestrator.algo.type=${type}`],
        columns: {
          [`${type}, backwards`]: "eval/backwards/reward",
          [`${type}, first word`]: "eval/first-word/reward"
        }
      })
    )
  },
  singles: { title: "Held-out reward of RAE, single rollouts", arms: [arm("RAE", "single")] }
}
