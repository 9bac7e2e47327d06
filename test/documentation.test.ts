import { describe, expect, it } from "@effect/vitest"
import ts from "typescript"
import { imports, place, type Source, sources } from "./doubles/sources.ts"

const all = sources("src")
const byPath = new Map(all.map((source) => [source.path, source]))

const comment = (source: Source, node: ts.Node): string =>
  (ts.getLeadingCommentRanges(source.text, node.getFullStart()) ?? [])
    .map(({ end, pos }) => source.text.slice(pos, end))
    .findLast((text) => text.startsWith("/**")) ?? ""

/** What a file declares for others; what it only hands on is documented where it is declared. */
const exported = ({ tree }: Source): ReadonlyArray<ts.Statement> =>
  tree.statements.filter(
    (statement) =>
      (ts.isExportAssignment(statement) && !ts.isIdentifier(statement.expression)) ||
      (ts.canHaveModifiers(statement) &&
        (ts.getModifiers(statement) ?? []).some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
  )

/** Files whose exports a user of the package can import. */
const entries = ["src/index.ts", "src/testing/index.ts", "src/Pipeline.ts"]
const shown = new Set(entries.flatMap((path) => imports(byPath.get(path)!)))

/** A type and a value of one name are documented once. */
const isSecondOfItsName = (statements: ReadonlyArray<ts.Statement>, statement: ts.Statement) =>
  ts.isTypeAliasDeclaration(statement) &&
  statements.some(
    (other) =>
      ts.isVariableStatement(other) &&
      other.declarationList.declarations.some((declared) => declared.name.getText() === statement.name.text)
  )

const lacking = (of: (source: Source) => boolean, isEnough: (comment: string) => boolean): ReadonlyArray<string> =>
  all.filter(of).flatMap((source) => {
    const statements = exported(source)
    return statements
      .filter((statement) => !isSecondOfItsName(statements, statement) && !isEnough(comment(source, statement)))
      .map((statement) => place(source, statement))
  })

describe("documentation", () => {
  it("every file opens with what it is for", () => {
    expect(all.filter(({ text }) => !text.startsWith("/**")).map(({ path }) => path)).toEqual([])
  })

  it("every export has a category", () => {
    expect(
      lacking(
        ({ path }) => !path.includes("/internal/"),
        (text) => text.includes("@category")
      )
    ).toEqual([])
  })

  it("what a user can import is described in words", () => {
    const words = (text: string) => text.replace(/@category [\w ]+|[/*\s]/g, "")
    expect(
      lacking(
        ({ path }) => shown.has(path),
        (text) => words(text) !== ""
      )
    ).toEqual([])
  })
})
