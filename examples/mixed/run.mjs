// One command for the whole of a mixed run: makes two teachers where they are not there yet, serves each with
// `primerl serve` on a free port, trains mixed.toml against them, and stops the servers however that ends.
//
//   node examples/mixed/run.mjs [--teacher-steps N] [options of primerl train, such as --set max_steps=5 or --resume]
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const at = (path) => fileURLToPath(new URL(path, import.meta.url))
const primerl = at("../../dist/bin/primerl.mjs")
const output = "runs/mixed-teachers"

const options = process.argv.slice(2)
const asked = options.indexOf("--teacher-steps")
const steps = asked === -1 ? 40 : Number(options.splice(asked, 2)[1])

const teachers = [
  { name: "reverser", config: at("../reverse-text/rl.toml"), sets: ["seed=2"], source: 2 },
  { name: "shouter", config: at("../shout.toml"), sets: ["seed=3"], source: 3 }
]

const running = new Set()
const stop = () => {
  for (const child of running) child.kill("SIGTERM")
}

/** Starts a command of primerl; none of them outlives this process. */
const start = (args, stdio) => {
  const child = spawn(process.execPath, [primerl, ...args], { stdio })
  running.add(child)
  child.once("exit", () => running.delete(child))
  return child
}

/** What went wrong, in words; anything else that is thrown is a fault of this script. */
class Failed extends Error {}

const ended = (child, what) =>
  new Promise((resolve, reject) => {
    child.once("error", reject)
    child.once("exit", (code, signal) => {
      if (code === 0) resolve()
      else reject(new Failed(`${what} ended with ${signal ?? `exit code ${code}`}`))
    })
  })

const policyOf = ({ name }) => `${output}/${name}/checkpoints/step_${steps}`

const make = async (teacher) => {
  if (existsSync(`${policyOf(teacher)}/checkpoint.json`)) return
  console.log(`\nmaking the teacher ${teacher.name}, ${steps} steps`)
  const sets = [...teacher.sets, `run.name=${teacher.name}`, `output_dir=${output}`, `max_steps=${steps}`]
  const resume = existsSync(`${output}/${teacher.name}`) ? ["--resume"] : []
  const args = ["train", teacher.config, ...resume, ...sets.flatMap((set) => ["--set", set])]
  await ended(start(args, "inherit"), `the teacher ${teacher.name}`)
}

/** The URL of a teacher, once it answers. */
const serve = (teacher) =>
  new Promise((resolve, reject) => {
    const args = ["serve", policyOf(teacher), "--name", teacher.name, "--port", "0"]
    const server = start(args, ["ignore", "pipe", "inherit"])
    createInterface({ input: server.stdout }).on("line", (line) => {
      const url = /^listening on (\S+)/.exec(line)?.[1]
      if (url !== undefined) resolve(url)
    })
    ended(server, `the server of ${teacher.name}`).catch(reject)
  })

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.once(signal, () => {
    process.exitCode = 130
    stop()
  })
}

try {
  for (const teacher of teachers) await make(teacher)
  const urls = await Promise.all(teachers.map(serve))
  const sets = teachers.flatMap(({ source }, index) => [
    "--set",
    `orchestrator.train.source.${source}.algo.teacher.base_url=${urls[index]}`
  ])
  for (const [index, { name }] of teachers.entries()) console.log(`${name} answers at ${urls[index]}`)
  await ended(start(["train", at("mixed.toml"), ...sets, ...options], "inherit"), "training")
} catch (failure) {
  if (!(failure instanceof Failed)) throw failure
  if (process.exitCode === undefined) {
    console.error(failure.message)
    process.exitCode = 1
  }
} finally {
  stop()
}
