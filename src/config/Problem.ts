/** One wrong thing in a configuration, and the error that reports all of them at once. */
import * as Data from "effect/Data"
import { at, dotted, enclosing, type KeyPath, type Located } from "./Located.ts"

/** @category model */
export interface Problem {
  /** the file as the user named it, or `--set` */
  readonly source: string
  /** counted from 1 */
  readonly line: number | undefined
  /** dotted key as the user spelt it; empty when the problem is not about one key */
  readonly key: string
  /** what was found, what is allowed, what to do */
  readonly what: string
}

/** What a rule found, before it is known where its keys were written. @category model */
export interface Finding {
  /** the keys that contradict each other, most telling first, as paths of the canonical spelling */
  readonly keys: ReadonlyArray<KeyPath>
  readonly what: string
}

/** @category errors */
export class ConfigError extends Data.TaggedError("ConfigError")<{ readonly problems: ReadonlyArray<Problem> }> {
  override get message() {
    return report(this.problems)
  }
}

const where = ({ source, line }: Problem): string => (line === undefined ? source : `${source}:${line}`)

/** By source in the order of their first problem, then by line. */
const inOrder = (problems: ReadonlyArray<Problem>): ReadonlyArray<Problem> => {
  const sources = Array.from(new Set(problems.map(({ source }) => source)))
  return problems.toSorted(
    (a, b) => sources.indexOf(a.source) - sources.indexOf(b.source) || (a.line ?? 0) - (b.line ?? 0)
  )
}

/** The text of a report: one line per problem, aligned, no line twice. @category conversions */
export const report = (problems: ReadonlyArray<Problem>): string => {
  const width = Math.max(...problems.map((problem) => where(problem).length))
  const lines = new Set(
    inOrder(problems).map((problem) => {
      const { key, what } = problem
      const [first, ...more] = (key === "" ? what : `${key}: ${what}`).split("\n")
      const indent = " ".repeat(width + 4)
      return [`  ${where(problem).padEnd(width)}  ${first}`, ...more.map((line) => `${indent}${line}`)].join("\n")
    })
  )
  const count = lines.size === 1 ? "a problem" : `${lines.size} problems`
  return [`the configuration has ${count}:`, ...lines].join("\n")
}

/** A problem of the value at a path, or of the table it is missing from. @category constructors */
export const atPath = (root: Located, path: KeyPath, what: string): Problem => {
  const found = at(root, path)
  const { source, line, key } = (found ?? enclosing(root, path)).place
  return { source, line, key: found === undefined || key === "" ? dotted(path) : key, what }
}

/** How many of the last keys of a path nobody wrote. */
const unwritten = (root: Located, path: KeyPath): number => {
  let length = path.length
  while (length > 0 && at(root, path.slice(0, length)) === undefined) length--
  return path.length - length
}

/** A finding at the first of its keys that somebody wrote, or else that comes closest to it. @category constructors */
export const ofFinding = (root: Located, finding: Finding): Problem => {
  const [first = [], ...others] = finding.keys
  const key = others.reduce((best, next) => (unwritten(root, next) < unwritten(root, best) ? next : best), first)
  return atPath(root, key, finding.what)
}
