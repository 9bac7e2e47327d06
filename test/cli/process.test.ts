import { spawnSync } from "node:child_process"
import { closeSync, existsSync, openSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"

const root = fileURLToPath(new URL("../..", import.meta.url))
const full = "/dev/full"

describe("the command as a process", () => {
  it.skipIf(!existsSync(full))("output that cannot be written is told once, and is no success", () => {
    const file = openSync(full, "w")
    const command = [join(root, "dist/bin/primerl.mjs"), "plan", "examples/reverse-text/rl.toml"]
    const { status, stderr } = spawnSync(process.execPath, command, { cwd: root, stdio: ["ignore", file, "pipe"] })
    closeSync(file)
    expect(stderr.toString()).toBe("primerl: standard output cannot be written (ENOSPC); some of it is missing\n")
    expect(status).toBe(1)
  })
})
