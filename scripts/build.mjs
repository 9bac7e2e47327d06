// Compiles the library with its types to dist/, and bundles the commands so that they start at once.
import { execFileSync } from "node:child_process"
import { chmodSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import { rolldown } from "rolldown"

const root = fileURLToPath(new URL("..", import.meta.url))
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc")
rmSync(`${root}dist`, { recursive: true, force: true })
execFileSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })

const bundle = await rolldown({
  cwd: root,
  platform: "node",
  input: { primerl: "cli/main.ts", conformance: "cli/conformance.ts" },
  external: ["jiti"],
  logLevel: "warn"
})
await bundle.write({ dir: "dist/bin", format: "esm", entryFileNames: "[name].mjs", sourcemap: false, minify: false })
chmodSync(`${root}dist/bin/primerl.mjs`, 0o755)
