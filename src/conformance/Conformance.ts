/** Runs every case of a folder, and says how far the package is from each record. */
import * as FileSystem from "@effect/platform/FileSystem"
import * as Effect from "effect/Effect"
import type { Options } from "../Trainer/Engine.ts"
import { CaseError, type Check, passes } from "./Check.ts"
import * as Losses from "./Losses.ts"
import * as Models from "./Models.ts"
import * as Packing from "./Packing.ts"

const list = (directory: string) =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    return (yield* fs.readDirectory(directory)).sort()
  }).pipe(Effect.mapError((error) => new CaseError({ file: directory, reason: `cannot be read (${error.message})` })))

/**
 * All checks of a folder, in the order of its files. Fails with `CaseError` when the folder holds no case or one that
 * cannot be read, and with the errors of a model that cannot be opened.
 *
 * @category checks
 */
export const run = (folder: string, options: Pick<Options, "isa" | "dtype" | "device"> = {}) =>
  Effect.gen(function* () {
    const names = yield* list(folder)
    const checks: Array<Check> = []
    if (names.includes("loss.json")) checks.push(...(yield* Losses.check(folder)))
    if (names.includes("packing.json")) checks.push(...(yield* Packing.check(folder)))
    const models = names.includes("models") ? yield* list(`${folder}/models`) : []
    for (const name of models) checks.push(...(yield* Models.check(folder, name, options)))
    if (checks.length === 0) {
      return yield* new CaseError({
        file: folder,
        reason: "holds no cases; a folder of cases has loss.json, packing.json or models/NAME/expected.json"
      })
    }
    return checks
  })

const digits = (value: number) => (value === 0 ? "0" : Number.isFinite(value) ? value.toExponential(1) : "broken")

/** The checks as a table, one line each, with a verdict. @category rendering */
export const table = (checks: ReadonlyArray<Check>): string => {
  const rows = checks.map((check) => [
    passes(check) ? "ok" : "FAIL",
    check.file,
    check.quantity,
    String(check.count),
    digits(check.worst),
    digits(check.tolerance),
    check.worst === 0 ? "" : check.at
  ])
  const all = [["", "file", "quantity", "compared", "worst", "tolerance", "at"], ...rows]
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)))
  const right = new Set([3, 4, 5])
  return all
    .map((row) =>
      row
        .map((cell, column) => (right.has(column) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!)))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}
