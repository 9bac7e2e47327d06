// Runs an experiment of docs/experiments.md: makes the teacher if it is not there yet and serves it, trains every arm on
// every seed that has not been trained yet, prints a table, and draws the curves into docs/.
//
//   node examples/experiments/run.mjs NAME [--seeds 1,2,3]
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Failed, main, run, serve } from "../processes.mjs"
import { chart, meanOf } from "./chart.mjs"
import { experiments, heldOut } from "./experiments.mjs"

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const output = "runs/experiments"
const teacherSteps = 40
const near = 0.05

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

/** Share of the tasks of some steps, each tried by a group, that one rollout or more has solved. */
const solved = (name, steps) => {
  const best = new Map()
  for (const step of steps) {
    const file = `${output}/${name}/rollouts/step_${String(step).padStart(6, "0")}.jsonl`
    for (const line of readFileSync(file, "utf8").trimEnd().split("\n")) {
      const { example, reward } = JSON.parse(line)
      if (typeof reward === "number") best.set(example, Math.max(reward, best.get(example) ?? 0))
    }
  }
  return [...best.values()].filter((reward) => reward === 1).length / best.size
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
  const tried = []
  for (const { columns, file, name: called, sets, teacher } of experiment.arms) {
    const runs = []
    for (const seed of seeds) {
      const folder = `${name}-${called.toLowerCase().replaceAll(" ", "-")}-${seed}`
      const taughtBy = teacher === undefined ? [] : [`${teacher}=${url}`]
      await train(folder, ["base.toml", `${file}.toml`], [...sets, ...taughtBy, `seed=${seed}`])
      runs.push(rowsOf(folder))
      tried.push({ called, folder, last: runs.at(-1).at(-1).step, seed })
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
  if (experiment.solved) {
    console.log("\n| | seed | solved, steps 1 to 5 | solved, last 5 steps |\n|---|---|---|---|")
    for (const { called, folder, last, seed } of tried) {
      const shares = [5, last].map((end) =>
        solved(
          folder,
          [4, 3, 2, 1, 0].map((back) => end - back)
        ).toFixed(3)
      )
      console.log(`| ${[called, seed, ...shares].join(" | ")} |`)
    }
  }
  const { title } = experiment
  if (title !== undefined) writeFileSync(at(`../../docs/${name}.svg`), chart({ title, lines, goal }))
})
