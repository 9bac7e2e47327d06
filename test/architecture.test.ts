import { basename, dirname } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import ts from "typescript"
import { files, imports, place, read, type Source, sources, visit } from "./doubles/sources.ts"

/** From the ground up. A name that ends with a slash is a folder, with all that is in it. */
const floors: ReadonlyArray<ReadonlyArray<string>> = [
  // 1 vocabulary: data and functions
  ["internal/", "trace/", "Credit", "Message", "MicroBatch", "Rollout", "Seed", "Trace", "TrainingSample"],
  // 2 services
  [
    ...["inference/", "renderers/", "runtimes/", "tokenizer/", "Trainer/", "wire/"],
    ...["Endpoints", "Inference", "ModuleLoader", "Permits", "Renderer", "Runtime", "State", "Tokenizer"]
  ],
  // 3 domain
  [
    ...["algorithms/", "harnesses/", "interception/", "tasksets/"],
    ...[
      "Algorithm",
      "DependentSet",
      "Environment",
      "Harness",
      "Interception",
      "Registry",
      "Reward",
      "Sampler",
      "Session",
      "Taskset"
    ]
  ],
  // 4 pipeline, and the loops around it with what they keep and say
  [
    ...["orchestrator/", "pipeline/"],
    ...["Checkpoint", "Evaluation", "FineTuning", "Journal", "Orchestrator", "Pipeline", "Report"]
  ],
  // 5 runs
  ["config/", "conformance/", "run/", "server/", "Config", "Engine", "Run"],
  // 6 what others see
  ["testing/", "index"]
]

const floorOf = (path: string): number =>
  floors.findIndex((names) =>
    names.some((name) => (name.endsWith("/") ? path.startsWith(`src/${name}`) : path === `src/${name}.ts`))
  )

const all = sources("src")
const importsOf = new Map(all.map((source) => [source.path, imports(source)]))

/** A path that leads from a file back to itself, if there is one. */
const circle = (): ReadonlyArray<string> | undefined => {
  const done = new Set<string>()
  const from = (path: string, above: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
    if (above.includes(path)) return [...above.slice(above.indexOf(path)), path]
    if (done.has(path)) return undefined
    for (const next of importsOf.get(path) ?? []) {
      const found = from(next, [...above, path])
      if (found !== undefined) return found
    }
    done.add(path)
    return undefined
  }
  for (const path of importsOf.keys()) {
    const found = from(path, [])
    if (found !== undefined) return found
  }
  return undefined
}

const places = (is: (node: ts.Node, source: Source) => boolean): ReadonlyArray<string> =>
  all.flatMap((source) => {
    const found: Array<string> = []
    visit(source.tree, (node) => {
      if (is(node, source)) found.push(place(source, node))
    })
    return found
  })

const isCallOf = (node: ts.Node, object: string, method: string) =>
  ts.isPropertyAccessExpression(node) && node.expression.getText() === object && node.name.text === method

/** A use of a global: not a member of something, nor the name of one. */
const isGlobal = (node: ts.Node, name: string) =>
  ts.isIdentifier(node) &&
  node.text === name &&
  !(ts.isPropertyAccessExpression(node.parent) && node.parent.name === node) &&
  !ts.isPropertyAssignment(node.parent) &&
  !ts.isPropertySignature(node.parent)

const isNewOf = (node: ts.Node, name: string) => ts.isNewExpression(node) && node.expression.getText() === name

describe("the house", () => {
  it("every file has a floor", () => {
    expect(all.map(({ path }) => path).filter((path) => floorOf(path) === -1)).toEqual([])
  })

  it("imports go down the floors, or stay on their own", () => {
    const upward = Array.from(importsOf).flatMap(([path, used]) =>
      used.flatMap((other) => (floorOf(other) > floorOf(path) ? [`${path} imports ${other}`] : []))
    )
    expect(upward).toEqual([])
  })

  it("no import leads back to where it came from", () => {
    expect(circle()).toBeUndefined()
  })

  it("what is internal is used by its own folder alone", () => {
    const intruding = Array.from(importsOf).flatMap(([path, used]) =>
      used.flatMap((other) => {
        const owner = dirname(dirname(other))
        return basename(dirname(other)) === "internal" && !path.startsWith(`${owner}/`) ? [`${path}: ${other}`] : []
      })
    )
    expect(intruding).toEqual([])
  })

  it("a module that is taken as a namespace is named like one", () => {
    const misnamed = all.flatMap((source) =>
      source.tree.statements.flatMap((statement) => {
        if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) return []
        const bindings = statement.importClause?.namedBindings
        const name = basename(statement.moduleSpecifier.text)
        const own = statement.moduleSpecifier.text.startsWith(".")
        return own && bindings !== undefined && ts.isNamespaceImport(bindings) && !/^[A-Z]/.test(name)
          ? [place(source, statement)]
          : []
      })
    )
    expect(misnamed).toEqual([])
  })

  it("a file is short, or says in its first lines why it is long", () => {
    const paths = [...files("src", /\.ts$/), ...files("cli", /\.ts$/), ...files("native", /\.(cc|h|inl)$/)]
    const long = paths.filter((path) => {
      const lines = read(path).split("\n")
      return lines.length > 401 && !/\blong\b/.test(lines.slice(0, 8).join("\n"))
    })
    expect(long).toEqual([])
  })
})

describe("the sources", () => {
  it("have no type that turns checks off", () => {
    expect(places((node) => node.kind === ts.SyntaxKind.AnyKeyword)).toEqual([])
    expect(all.filter(({ text }) => /@ts-(ignore|expect-error|nocheck)/.test(text)).map(({ path }) => path)).toEqual([])
  })

  it("leave waiting to Effect, but for the one that waits until Node has looked at the network", () => {
    const waits = places(
      (node) =>
        node.kind === ts.SyntaxKind.AsyncKeyword ||
        ts.isAwaitExpression(node) ||
        isNewOf(node, "Promise") ||
        ["setTimeout", "setInterval", "setImmediate", "queueMicrotask"].some((name) => isGlobal(node, name))
    )
    expect(waits.filter((place) => !place.startsWith("src/interception/InTurn.ts:"))).toEqual([])
  })

  it("leave failures to Effect", () => {
    expect(places((node) => ts.isTryStatement(node))).toEqual([])
  })

  it("take time and chance from Effect's services, so that a run repeats bit for bit", () => {
    const clocks = places(
      (node) =>
        isCallOf(node, "Date", "now") ||
        isNewOf(node, "Date") ||
        isCallOf(node, "performance", "now") ||
        isCallOf(node, "process", "hrtime") ||
        isCallOf(node, "Math", "random") ||
        ["randomUUID", "randomBytes", "getRandomValues"].some((name) => isGlobal(node, name))
    )
    expect(clocks).toEqual([])
  })

  it("write nothing past the log", () => {
    const writes = places((node) => isGlobal(node, "console") || isCallOf(node, "process", "stdout"))
    expect(writes).toEqual([])
  })
})
