/** TOML text and `--set` values, read into values that know their lines. */
import * as Either from "effect/Either"
import { parse, TomlError } from "smol-toml"
import { type AST, parseTOML } from "toml-eslint-parser"
import { dotted, isRecord, type KeyPath, type Located, make, type Place } from "./Located.ts"
import type { Problem } from "./Problem.ts"

const id = (path: KeyPath): string => JSON.stringify(path)

/** The line of every key of a document, by its path. */
const linesOf = (text: string): ReadonlyMap<string, number> => {
  const lines = new Map<string, number>()
  const note = (path: KeyPath, node: { readonly loc: AST.SourceLocation }) => {
    if (!lines.has(id(path))) lines.set(id(path), node.loc.start.line)
  }
  const content = (node: AST.TOMLContentNode, path: KeyPath): void => {
    if (node.type === "TOMLInlineTable") for (const entry of node.body) keyValue(entry, path)
    if (node.type === "TOMLArray") {
      node.elements.forEach((element, index) => {
        note([...path, index], element)
        content(element, [...path, index])
      })
    }
  }
  const keyValue = (entry: AST.TOMLKeyValue, table: KeyPath): void => {
    let path = table
    for (const key of entry.key.keys) {
      path = [...path, key.type === "TOMLBare" ? key.name : key.value]
      note(path, key)
    }
    content(entry.value, path)
  }
  // a document that only this parser refuses keeps its values and loses its line numbers
  const program = Either.try(() => parseTOML(text))
  if (Either.isLeft(program)) return lines
  for (const node of program.right.body[0].body) {
    if (node.type === "TOMLKeyValue") {
      keyValue(node, [])
      continue
    }
    for (let length = 1; length <= node.resolvedKey.length; length++) note(node.resolvedKey.slice(0, length), node)
    for (const entry of node.body) keyValue(entry, node.resolvedKey)
  }
  return lines
}

/** A frame of code shows whole lines of the file, however long these are. */
const clipped = (message: string): string =>
  message
    .split("\n")
    .map((line) => (line.length > 160 ? `${line.slice(0, 159)}…` : line))
    .join("\n")

/** Reads a file's text; a syntax error is the only problem of its file. @category constructors */
export const ofText = (
  text: string,
  source: string,
  directory: string
): Either.Either<Located, ReadonlyArray<Problem>> =>
  Either.try({
    try: () => parse(text),
    catch: (error) => {
      const line = error instanceof TomlError ? error.line : undefined
      const what = error instanceof Error ? clipped(error.message.trimEnd()) : String(error)
      return [{ source, line, key: "", what }]
    }
  }).pipe(
    Either.map((value) => {
      const lines = linesOf(text)
      const lineOf = (path: KeyPath): number | undefined => {
        for (let length = path.length; length > 0; length--) {
          const line = lines.get(id(path.slice(0, length)))
          if (line !== undefined) return line
        }
        return undefined
      }
      return make(value, (path): Place => ({ source, line: lineOf(path), directory, key: dotted(path) }))
    })
  )

/** The single key that a one-line document sets. */
const onlyKey = (value: unknown, path: ReadonlyArray<string>): boolean => {
  if (path.length === 0) return true
  return isRecord(value) && Object.keys(value).length === 1 && onlyKey(value[path[0]!], path.slice(1))
}

/**
 * Reads one `--set a.b=c`. The value is TOML (`3`, `true`, `[1, 2]`, `{ id = "x" }`); what is not is a string, so that
 * quotes can be left out. A list item is named by its index: `orchestrator.train.source.0.group_size=4`.
 *
 * @category constructors
 */
export const ofSet = (assignment: string, directory: string): Either.Either<Located, ReadonlyArray<Problem>> => {
  const equals = assignment.indexOf("=")
  const problem = (what: string) => Either.left([{ source: "--set", line: undefined, key: "", what }])
  if (equals < 1) return problem(`${JSON.stringify(assignment)} is not of the form key=value`)
  const key = assignment.slice(0, equals).trim()
  const text = assignment.slice(equals + 1).trim()
  const path = Either.try(() => parse(`${key} = 0`))
  const segments: Array<string> = []
  if (Either.isRight(path)) {
    for (let here: unknown = path.right; isRecord(here); here = here[segments.at(-1)!]) {
      segments.push(Object.keys(here)[0]!)
    }
  }
  if (segments.length === 0 || key.includes("\n")) {
    return problem(`${JSON.stringify(key)} is not a dotted key such as trainer.optim.lr`)
  }
  const typed = Either.try(() => parse(`${key} = ${text}`)).pipe(
    Either.filterOrLeft(
      (value) => onlyKey(value, segments),
      () => undefined
    )
  )
  const value = Either.getOrElse(typed, () => segments.reduceRight<unknown>((inner, name) => ({ [name]: inner }), text))
  return Either.right(make(value, (at): Place => ({ source: "--set", line: undefined, directory, key: dotted(at) })))
}
