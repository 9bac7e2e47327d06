/** The package's own sources as syntax trees, for tests that hold the code to its rules. */
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { fileURLToPath } from "node:url"
import ts from "typescript"

const root = fileURLToPath(new URL("../../", import.meta.url))

export interface Source {
  /** relative to the repository */
  readonly path: string
  readonly text: string
  readonly tree: ts.SourceFile
}

/** Every file below a directory of the repository whose name ends so, in the order of names. */
export const files = (directory: string, ending: RegExp): ReadonlyArray<string> =>
  readdirSync(join(root, directory), { recursive: true, encoding: "utf8" })
    .filter((path) => ending.test(path))
    .map((path) => join(directory, path))
    .sort()

export const read = (path: string): string => readFileSync(join(root, path), "utf8")

export const sources = (directory: string): ReadonlyArray<Source> =>
  files(directory, /\.ts$/).map((path) => {
    const text = read(path)
    return { path, text, tree: ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true) }
  })

export const visit = (node: ts.Node, see: (node: ts.Node) => void): void => {
  see(node)
  ts.forEachChild(node, (child) => visit(child, see))
}

/** A node as `file:line`. */
export const place = ({ path, tree }: Source, node: ts.Node): string =>
  `${path}:${tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1}`

/** The files that a file imports, re-exports or loads, types included. */
export const imports = ({ path, tree }: Source): ReadonlyArray<string> => {
  const found: Array<string> = []
  const note = (specifier: ts.Node | undefined) => {
    if (specifier === undefined || !ts.isStringLiteral(specifier) || !specifier.text.startsWith(".")) return
    found.push(normalize(join(dirname(path), specifier.text)))
  }
  visit(tree, (node) => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) note(node.moduleSpecifier)
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) note(node.arguments[0])
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) note(node.argument.literal)
  })
  return found
}
