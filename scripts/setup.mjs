// Brings a checkout to the point where everything runs: dependencies, native addon, compiled sources.
// Each part is skipped while what it was made from is unchanged, so that running it again costs nothing.
// With --tests it also fetches what only the tests compare with: half a gigabyte that nobody needs to train.
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))
const stamps = join(root, "node_modules", ".primerl")

const files = (path) =>
  readdirSync(join(root, path), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => {
      const inner = join(path, entry.name)
      if (entry.isDirectory()) return entry.name === "build" ? [] : files(inner)
      return [inner]
    })

const digest = (paths) => {
  const hash = createHash("sha256").update(process.version).update(process.arch)
  for (const path of paths) hash.update(path).update(readFileSync(join(root, path)))
  return hash.digest("hex")
}

const part = (name, { inputs, output, command }) => {
  const stamp = join(stamps, name)
  const wanted = digest(inputs)
  if (existsSync(join(root, output)) && existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return
  const started = process.hrtime.bigint()
  process.stderr.write(`${name} … `)
  try {
    execFileSync(command[0], command.slice(1), { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
  } catch (error) {
    process.stderr.write("failed\n")
    process.stderr.write(String(error.stdout ?? ""))
    process.stderr.write(String(error.stderr ?? error.message))
    process.stderr.write(`\nsetup: "${command.join(" ")}" failed; what it printed is above\n`)
    process.exit(1)
  }
  mkdirSync(stamps, { recursive: true })
  writeFileSync(stamp, wanted)
  process.stderr.write(`${(Number(process.hrtime.bigint() - started) / 1e9).toFixed(1)} s\n`)
}

const npm = process.platform === "win32" ? "npm.cmd" : "npm"
part("dependencies", {
  inputs: ["package.json", "package-lock.json"],
  output: "node_modules/effect/package.json",
  command: [npm, "ci", "--no-audit", "--no-fund", "--loglevel=error"]
})
if (process.argv.includes("--tests")) {
  part("peers of the tests", {
    inputs: ["test/peers/package.json", "test/peers/package-lock.json"],
    output: "test/peers/node_modules/ai/package.json",
    command: [npm, "ci", "--prefix", "test/peers", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
  })
}
part("native addon", {
  inputs: [...files("native"), "package-lock.json"],
  output: "native/build/primerl.node",
  command: [process.execPath, "native/build.mjs"]
})
part("sources", {
  inputs: [
    ...files("src"),
    ...files("cli"),
    "scripts/build.mjs",
    "tsconfig.build.json",
    "tsconfig.json",
    "package-lock.json"
  ],
  output: "dist/bin/primerl.mjs",
  command: [process.execPath, "scripts/build.mjs"]
})
