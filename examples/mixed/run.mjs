// One command for the whole of a mixed run: makes two teachers where they are not there yet, serves each with
// `primerl serve` on a free port, trains mixed.toml against them, and stops the servers however that ends.
//
//   node examples/mixed/run.mjs [--teacher-steps N] [options of primerl train, such as --set max_steps=5 or --resume]
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { main, run, serve } from "../processes.mjs"

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const output = "runs/mixed-teachers"

const options = process.argv.slice(2)
const asked = options.indexOf("--teacher-steps")
const steps = asked === -1 ? 40 : Number(options.splice(asked, 2)[1])

const teachers = [
  { name: "reverser", config: at("../reverse-text/rl.toml"), sets: ["seed=2"], source: 2 },
  { name: "shouter", config: at("../shout.toml"), sets: ["seed=3"], source: 3 }
]

const policyOf = ({ name }) => `${output}/${name}/checkpoints/step_${steps}`

const make = async (teacher) => {
  if (existsSync(`${policyOf(teacher)}/checkpoint.json`)) return
  console.log(`\nmaking the teacher ${teacher.name}, ${steps} steps`)
  const sets = [...teacher.sets, `run.name=${teacher.name}`, `output_dir=${output}`, `max_steps=${steps}`]
  const resume = existsSync(`${output}/${teacher.name}`) ? ["--resume"] : []
  const args = ["train", teacher.config, ...resume, ...sets.flatMap((set) => ["--set", set])]
  await run(args, `the teacher ${teacher.name}`)
}

await main(async () => {
  for (const teacher of teachers) await make(teacher)
  const urls = await Promise.all(teachers.map((teacher) => serve(policyOf(teacher), teacher.name)))
  const sets = teachers.flatMap(({ source }, index) => [
    "--set",
    `orchestrator.train.source.${source}.algo.teacher.base_url=${urls[index]}`
  ])
  for (const [index, { name }] of teachers.entries()) console.log(`${name} answers at ${urls[index]}`)
  await run(["train", at("mixed.toml"), ...sets, ...options], "training")
})
