/**
 * `npm run conformance -- FOLDER [--device cuda] [--dtype bfloat16]`: exit 0 when every deviation is within its tolerance,
 * 1 when one is not, 2 when the folder cannot be read or the engine cannot be opened.
 */
import { parseArgs } from "node:util"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import { passes } from "../src/conformance/Check.ts"
import * as Conformance from "../src/conformance/Conformance.ts"

const usage = `usage: npm run conformance -- FOLDER [--device cpu|cuda] [--dtype float32|bfloat16|bfloat16x3]
  FOLDER holds loss.json, packing.json or models/*
`

const devices = ["cpu", "cuda"] as const
const dtypes = ["float32", "bfloat16", "bfloat16x3"] as const

interface Options {
  readonly device: (typeof devices)[number]
  readonly dtype: (typeof dtypes)[number]
}

/** One of the names, the first unless one is given. */
const oneOf = <A extends string>(
  option: string,
  names: ReadonlyArray<A>,
  given: string = names[0]!
): Either.Either<A, string> =>
  Either.fromNullable(
    names.find((name) => name === given),
    () => `${option} ${given}: there are ${names.join(", ")}`
  )

const program = (folder: string, options: Options) =>
  Conformance.run(folder, options).pipe(
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

const wrongCall = (reason: string): number => {
  process.stderr.write(`conformance: ${reason}\n${usage}`)
  return 2
}

const call = Either.try({
  try: () =>
    parseArgs({
      allowPositionals: true,
      options: { device: { type: "string" }, dtype: { type: "string" }, help: { type: "boolean", short: "h" } }
    }),
  catch: (cause) => (cause as Error).message
})

const main = async (): Promise<number> => {
  if (Either.isLeft(call)) return wrongCall(call.left)
  const { positionals, values } = call.right
  if (values.help === true) {
    process.stdout.write(usage)
    return 0
  }
  const options = Either.all({
    device: oneOf("--device", devices, values.device),
    dtype: oneOf("--dtype", dtypes, values.dtype)
  })
  if (Either.isLeft(options)) return wrongCall(options.left)
  const [folder, ...more] = positionals
  if (folder === undefined || more.length > 0) return wrongCall("one folder, please")
  return Effect.runPromise(program(folder, options.right))
}

process.exitCode = await main()
