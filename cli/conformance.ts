/** `npm run conformance -- FOLDER`: exit 0 when every deviation is within its tolerance, 1 when one is not, 2 when the folder cannot be read. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import { passes } from "../src/conformance/Check.ts"
import * as Conformance from "../src/conformance/Conformance.ts"

const program = (folder: string) =>
  Conformance.run(folder).pipe(
    Effect.map((checks) => {
      const failed = checks.filter((check) => !passes(check)).length
      const verdict =
        failed === 0
          ? `${checks.length} quantities, all within tolerance`
          : `${failed} of ${checks.length} quantities are beyond their tolerance`
      process.stdout.write(`${Conformance.table(checks)}\n\n${verdict}\n`)
      return failed === 0 ? 0 : 1
    }),
    Effect.catchAll((error) =>
      Effect.sync(() => {
        process.stderr.write(`conformance: ${error.message}\n`)
        return 2
      })
    ),
    Effect.provide(NodeFileSystem.layer)
  )

const folder = process.argv[2]
if (folder === undefined || process.argv.length > 3 || folder.startsWith("-")) {
  process.stderr.write("usage: npm run conformance -- FOLDER\n  FOLDER holds loss.json, packing.json or models/*\n")
  process.exitCode = folder === "--help" || folder === "-h" ? 0 : 2
} else {
  process.exitCode = await Effect.runPromise(program(folder))
}
