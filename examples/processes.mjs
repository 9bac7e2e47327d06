// Starts commands of primerl from a script: none of them outlives it, however it ends.
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const primerl = fileURLToPath(new URL("../dist/bin/primerl.mjs", import.meta.url))
const running = new Set()

export const stop = () => {
  for (const child of running) child.kill("SIGTERM")
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  // every time: whoever presses Ctrl-C twice will not wait
  process.on(signal, () => {
    process.exitCode = 130
    stop()
  })
}

/** What went wrong, in words; anything else that is thrown is a fault of the script. */
export class Failed extends Error {}

const start = (args, stdio) => {
  // a command after a signal would be started only to be in the way
  if (process.exitCode !== undefined) throw new Failed("stopped")
  // Apart from the group of this process, which a Ctrl-C reaches as a whole: a command that is told by the terminal and by
  // `stop` takes the second for impatience, and ends without putting its things away.
  const child = spawn(process.execPath, [primerl, ...args], { stdio, detached: true })
  running.add(child)
  child.once("exit", () => running.delete(child))
  return child
}

const ended = (child, what) =>
  new Promise((resolve, reject) => {
    child.once("error", reject)
    child.once("exit", (code, signal) => {
      if (code === 0) resolve()
      else reject(new Failed(`${what} ended with ${signal ?? `exit code ${code}`}`))
    })
  })

/** Runs a command to its end, its output where this script's goes. */
export const run = (args, what) => ended(start(args, "inherit"), what)

/** The URL of a model, once it answers. */
export const serve = (model, name) =>
  new Promise((resolve, reject) => {
    const server = start(["serve", model, "--name", name, "--port", "0"], ["ignore", "pipe", "inherit"])
    createInterface({ input: server.stdout }).on("line", (line) => {
      const url = /^listening on (\S+)/.exec(line)?.[1]
      if (url !== undefined) resolve(url)
    })
    ended(server, `the server of ${name}`).catch(reject)
  })

/** The whole of a script: says what failed, and ends what it started. */
export const main = async (script) => {
  try {
    await script()
  } catch (failure) {
    if (!(failure instanceof Failed)) throw failure
    if (process.exitCode === undefined) {
      console.error(failure.message)
      process.exitCode = 1
    }
  } finally {
    stop()
  }
}
