// Runs commands for a program, in a directory that it makes, and lives no longer than the program does: when its standard
// input ends, by whatever death, it kills what it started and removes the directory. One JSON value a line, both ways.
//
//   in   {"id": 1, "cwd": "a", "program": "ls", "args": [], "env": {}, "output": "file", "maxBytes": 65536}   or {"kill": 1}
//   out  {"root": "/tmp/primerl-x"} once, then {"id": 1, "code": 0, "stdout": "", "stderr": "", "truncated": false}
import { spawn } from "node:child_process"
import { closeSync, constants, mkdtempSync, openSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

const root = mkdtempSync(join(tmpdir(), "primerl-"))
/** running commands by id */
const running = new Map()

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`)

const end = (child) => {
  try {
    // Its whole group: what a command starts ends with it.
    process.kill(-child.pid, "SIGKILL")
  } catch {
    child.kill("SIGKILL")
  }
}

const leave = () => {
  for (const child of running.values()) end(child)
  rmSync(root, { recursive: true, force: true })
  process.exit(0)
}

const run = ({ args, cwd, env, id, maxBytes, output, program }) => {
  let file
  try {
    // A name that is a link would lead out of the directory.
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
    if (output !== undefined) file = openSync(join(root, cwd, output), flags, 0o644)
    const child = spawn(program, args, {
      cwd: join(root, cwd),
      env,
      detached: true,
      stdio: ["ignore", file ?? "pipe", "pipe"]
    })
    running.set(id, child)
    const parts = { stdout: [], stderr: [] }
    let bytes = 0
    let truncated = false
    const read = (name) => (chunk) => {
      const room = maxBytes - bytes
      bytes += chunk.length
      if (room > 0) parts[name].push(chunk.subarray(0, room))
      if (bytes > maxBytes && !truncated) {
        truncated = true
        end(child)
      }
    }
    child.stdout?.on("data", read("stdout"))
    child.stderr.on("data", read("stderr"))
    const text = (name) => Buffer.concat(parts[name]).toString("utf8")
    let failed
    child.on("error", (error) => {
      failed = error.message
      if (child.pid === undefined) done(null, null)
    })
    const done = (code, signal) => {
      if (!running.delete(id)) return
      say({ id, code, signal, failed, truncated, stdout: text("stdout"), stderr: text("stderr") })
    }
    child.on("close", done)
  } catch (error) {
    running.delete(id)
    say({ id, code: 1, failed: undefined, truncated: false, stdout: "", stderr: `${error.code ?? error.message}\n` })
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

// Only the end of its input ends it: a Ctrl-C goes to the program, which closes in order.
for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {})
process.on("SIGTERM", leave)
process.stdout.on("error", leave)
const lines = createInterface({ input: process.stdin })
lines.on("line", (line) => {
  const request = JSON.parse(line)
  if (request.kill === undefined) run(request)
  else if (running.has(request.kill)) end(running.get(request.kill))
})
lines.on("close", leave)
say({ root })
