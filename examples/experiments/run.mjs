// Runs an experiment of docs/experiments.md: makes the teacher if it is not there yet and serves it, trains every arm on
// every seed that has not been trained yet, prints a table, and draws the curves into docs/.
//
//   node examples/experiments/run.mjs NAME [--seeds 1,2,3]
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Failed, main, run, serve } from "../processes.mjs"
import { chart, meanOf } from "./chart.mjs"

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const output = "runs/experiments"
const teacherSteps = 40
const heldOut = "eval/reverse-text/reward"
const near = 0.05

const opd = "orchestrator.algo.teacher.base_url"
const sampler = "orchestrator.train.sampling.source.base_url"
const arm = (name, file, more) => ({ name, file, sets: [], columns: { [name]: heldOut }, ...more })
const atRates = (name, file, rates, more) =>
  rates.map((rate) => arm(`${name} ${rate}`, file, { sets: [`trainer.optim.lr=${rate}`], ...more }))

/** Arms of each experiment: a file laid over base.toml, what is set besides, and the columns that are curves. Drawn if it has a title. */
const experiments = {
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

const setting = (sets) => sets.flatMap((set) => ["--set", set])
const rowsOf = (name) =>
  readFileSync(`${output}/${name}/metrics.jsonl`, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line))
const isDone = (name) => existsSync(`${output}/${name}/summary.json`)

const train = async (name, files, sets) => {
  if (isDone(name)) return
  const resume = existsSync(`${output}/${name}`) ? ["--resume"] : []
  console.log(`\n${name}`)
  const args = [...files.map(at), ...resume, ...setting([...sets, `run.name=${name}`, `output_dir=${output}`])]
  await run(["train", ...args], name)
}

/** The first evaluated step from which on three evaluations in a row are near the teacher's. */
const arrival = (curve, goal) =>
  curve.find(
    (_, index) => index + 3 <= curve.length && curve.slice(index, index + 3).every(([, one]) => one >= goal)
  )?.[0]

await main(async () => {
  const [name, ...options] = process.argv.slice(2)
  const experiment = Object.hasOwn(experiments, name ?? "") ? experiments[name] : undefined
  if (experiment === undefined) throw new Failed(`which one? ${Object.keys(experiments).join(", ")}`)
  const single = name === "learning-rates" ? "1" : "1,2,3"
  const seeds = (options[0] === "--seeds" ? options[1] : single).split(",")

  const needsTeacher = experiment.arms.some(({ teacher }) => teacher !== undefined)
  let url
  if (needsTeacher) {
    await train("teacher", ["../reverse-text/rl.toml"], [`orchestrator.eval.interval=${teacherSteps}`])
    url = await serve(`${output}/teacher/checkpoints/step_${teacherSteps}`, "teacher")
  }
  const taught = needsTeacher ? rowsOf("teacher").at(-1)[heldOut] : undefined
  const goal = taught === undefined ? undefined : taught - near
  if (goal !== undefined) console.log(`teacher, held out: ${taught.toFixed(3)}`)

  const lines = []
  for (const { columns, file, name: called, sets, teacher } of experiment.arms) {
    const runs = []
    for (const seed of seeds) {
      const folder = `${name}-${called.toLowerCase().replaceAll(" ", "-")}-${seed}`
      const taughtBy = teacher === undefined ? [] : [`${teacher}=${url}`]
      await train(folder, ["base.toml", `${file}.toml`], [...sets, ...taughtBy, `seed=${seed}`])
      runs.push(rowsOf(folder))
    }
    for (const [line, column] of Object.entries(columns)) {
      const curves = runs.map((rows) =>
        rows.flatMap((row) => (typeof row[column] === "number" ? [[row.step, row[column]]] : []))
      )
      lines.push({ name: line, curves })
    }
  }

  console.log(
    `\n| | seed | first | best | last |${goal === undefined ? "" : ` within ${near} of the teacher from step |`}`
  )
  console.log(`|---|---|---|---|---|${goal === undefined ? "" : "---|"}`)
  for (const { curves, name: line } of lines) {
    const all = curves.map((curve, index) => [seeds[index], curve])
    if (curves.length > 1) all.push(["mean", meanOf(curves)])
    for (const [seed, curve] of all) {
      const best = curve.reduce((most, one) => (one[1] > most[1] ? one : most))
      const values = [curve[0], best, curve.at(-1)].map(([step, value]) => `${value.toFixed(3)} (${step})`)
      const arrived = goal === undefined ? [] : [arrival(curve, goal) ?? "never"]
      console.log(`| ${[line, seed, ...values, ...arrived].join(" | ")} |`)
    }
  }
  const { title } = experiment
  if (title !== undefined) writeFileSync(at(`../../docs/${name}.svg`), chart({ title, lines, goal }))
})
