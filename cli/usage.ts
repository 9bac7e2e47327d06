/** Checks a command line against what commands take, before it is parsed: nothing unknown is ever read as a file. */
import * as Either from "effect/Either"
import { nearest } from "../src/internal/Nearest.ts"

/** What follows an option. @category model */
export type Operand = "nothing" | "text" | "count" | "whole"

/** What a command takes. @category model */
export interface Command {
  readonly options: Readonly<Record<string, Operand>>
  /** what the words after the options are, as in "a configuration file (TOML)"; undefined takes none */
  readonly files: string | undefined
}

/** Every command by its name; the name of a command of a group is two words. @category model */
export type Syntax = Readonly<Record<string, Command>>

const everywhere: Readonly<Record<string, Operand>> = {
  "--help": "nothing",
  "-h": "nothing",
  "--version": "nothing",
  "--wizard": "nothing",
  "--completions": "text",
  "--log-level": "text"
}

const shells: ReadonlyArray<string> = ["bash", "zsh", "fish", "sh"]
const levels: ReadonlyArray<string> = ["all", "trace", "debug", "info", "warning", "error", "fatal", "none"]

const meant = (word: string, known: Iterable<string>): string => {
  const close = nearest(word, known)
  return close === undefined ? "" : `; did you mean ${JSON.stringify(close)}?`
}

const list = (words: Iterable<string>): string => Array.from(words).join(", ")

/** The first words of all commands, or the second words of those of a group. */
const words = (syntax: Syntax, group?: string): ReadonlyArray<string> => {
  const names = Object.keys(syntax).map((name) => name.split(" "))
  const found =
    group === undefined
      ? names.map(([first]) => first!)
      : names.map(([first, ...rest]) => (first === group ? rest.join(" ") : ""))
  return Array.from(new Set(found)).filter((word) => word !== "")
}

/** The name of the command that a line asks for, as far as it goes, without options. */
const nameOf = (args: ReadonlyArray<string>, syntax: Syntax): ReadonlyArray<string> => {
  const plain = args.filter((arg) => !arg.startsWith("-"))
  return plain.slice(0, words(syntax, plain[0]).length > 0 ? 2 : 1)
}

/**
 * The arguments with `--key=value` split, options first and files after `--`; or one line that says what is wrong.
 *
 * @category parsing
 */
export const normalise = (
  args: ReadonlyArray<string>,
  syntax: Syntax
): Either.Either<ReadonlyArray<string>, string> => {
  const named = nameOf(args, syntax)
  const command = named.length === 0 ? undefined : named.join(" ")
  const before: Array<string> = []
  const options: Array<string> = []
  const files: Array<string> = []
  let literal = false
  let helped = false
  let wordsSeen = 0
  for (let index = 0; index < args.length; index++) {
    const arg = args[index]!
    if (literal || !arg.startsWith("-") || arg === "-") {
      if (wordsSeen >= named.length || literal) files.push(arg)
      else wordsSeen++
      continue
    }
    if (arg === "--") {
      literal = true
      continue
    }
    const equals = arg.startsWith("--") ? arg.indexOf("=") : -1
    const name = equals < 0 ? arg : arg.slice(0, equals)
    const known = { ...everywhere, ...(command === undefined ? {} : syntax[command]?.options) }
    const operand = known[name]
    if (operand === undefined) {
      const others = Object.keys(syntax).filter((one) => syntax[one]?.options[name] !== undefined)
      if (others.length > 0 && (command === undefined || !(command in syntax))) {
        return Either.left(`${name} is an option of ${list(others)}: put the command first`)
      }
      const whose = command !== undefined && command in syntax ? ` of ${command}` : ""
      return Either.left(`unknown option ${JSON.stringify(name)}${whose}${meant(name, Object.keys(known))}`)
    }
    if (operand === "nothing") {
      if (equals >= 0) return Either.left(`${name} takes no value, got ${JSON.stringify(arg.slice(equals + 1))}`)
      helped ||= name in everywhere
      options.push(name)
      continue
    }
    const value = equals < 0 ? args[++index] : arg.slice(equals + 1)
    if (value === undefined) return Either.left(`${name} needs a value after it`)
    if (value === "") return Either.left(`${name} needs a value, got ""`)
    if (name === "--completions" && !shells.includes(value)) {
      return Either.left(`--completions knows the shells ${list(shells)}, not ${JSON.stringify(value)}`)
    }
    if (name === "--log-level" && !levels.includes(value)) {
      return Either.left(`--log-level knows ${list(levels)}, not ${JSON.stringify(value)}${meant(value, levels)}`)
    }
    const least = operand === "count" ? 1 : operand === "whole" ? 0 : undefined
    if (least !== undefined && !(/^(0|[1-9]\d{0,8})$/.test(value) && Number(value) >= least)) {
      return Either.left(`${name} needs a whole number, at least ${least}, got ${JSON.stringify(value)}`)
    }
    helped ||= name in everywhere && name !== "--log-level"
    // The parser finds its own option before the command alone, whatever else there is.
    if (name === "--log-level") before.push(name, value)
    else options.push(name, value)
    // a shell's name is an operand of a built-in option, not a command
    if (name in everywhere && command === value) wordsSeen = named.length
  }
  if (command === undefined) return Either.right(options)
  const asked = syntax[command]
  if (asked === undefined) {
    const inside = words(syntax, named[0])
    if (helped) return Either.right(inside.length > 0 ? [...named.slice(0, 1), ...options] : options)
    if (inside.length > 0 && named.length === 1) return Either.left(`${command} needs a word after it: ${list(inside)}`)
    const others = inside.length > 0 ? inside.map((word) => `${named[0]} ${word}`) : words(syntax)
    return Either.left(
      `unknown command ${JSON.stringify(command)}${meant(command, others) || `; commands are ${list(others)}`}`
    )
  }
  if (asked.files === undefined && files.length > 0) {
    return Either.left(`${command} takes no files, got ${JSON.stringify(files[0])}`)
  }
  if (asked.files !== undefined && files.length === 0 && !helped) return Either.left(`${command} needs ${asked.files}`)
  return Either.right([...before, ...named, ...options, ...(files.length === 0 ? [] : ["--", ...files])])
}
