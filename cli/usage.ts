/** Checks a command line against what commands take, before it is parsed: nothing unknown is ever read as a file. */
import * as Either from "effect/Either"
import { nearest } from "../src/internal/Nearest.ts"

/** What follows an option. @category model */
export type Operand = "nothing" | "text" | "count"

/** The options of each command. @category model */
export type Syntax = Readonly<Record<string, Readonly<Record<string, Operand>>>>

const everywhere: Readonly<Record<string, Operand>> = {
  "--help": "nothing",
  "-h": "nothing",
  "--version": "nothing",
  "--wizard": "nothing",
  "--completions": "text",
  "--log-level": "text"
}

const shells: ReadonlyArray<string> = ["bash", "zsh", "fish", "sh"]

const meant = (word: string, known: Iterable<string>): string => {
  const close = nearest(word, known)
  return close === undefined ? "" : `; did you mean ${JSON.stringify(close)}?`
}

const list = (words: ReadonlyArray<string>): string => words.join(", ")

/**
 * The arguments with `--key=value` split, options first and files after `--`; or one line that says what is wrong.
 *
 * @category parsing
 */
export const normalise = (
  args: ReadonlyArray<string>,
  syntax: Syntax
): Either.Either<ReadonlyArray<string>, string> => {
  const command = args.find((arg) => !arg.startsWith("-"))
  const options: Array<string> = []
  const files: Array<string> = []
  let literal = false
  let helped = false
  let named = false
  for (let index = 0; index < args.length; index++) {
    const arg = args[index]!
    if (literal || !arg.startsWith("-") || arg === "-") {
      if (named || literal) files.push(arg)
      else named = true
      continue
    }
    if (arg === "--") {
      literal = true
      continue
    }
    const equals = arg.startsWith("--") ? arg.indexOf("=") : -1
    const name = equals < 0 ? arg : arg.slice(0, equals)
    const known = { ...everywhere, ...(command === undefined ? {} : syntax[command]) }
    const operand = known[name]
    if (operand === undefined) {
      const others = Object.keys(syntax).filter((one) => syntax[one]?.[name] !== undefined)
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
    if (operand === "count" && !/^[1-9]\d*$/.test(value)) {
      return Either.left(`${name} needs a whole number, at least 1, got ${JSON.stringify(value)}`)
    }
    helped ||= name in everywhere && name !== "--log-level"
    options.push(name, value)
    // a shell's name is an operand of a built-in option, not a command
    if (name in everywhere && command === value) named = true
  }
  if (command === undefined || (helped && !(command in syntax))) return Either.right(options)
  if (!(command in syntax)) {
    const close = meant(command, Object.keys(syntax)) || `; commands are ${list(Object.keys(syntax))}`
    return Either.left(`unknown command ${JSON.stringify(command)}${close}`)
  }
  if (files.length === 0 && !helped) return Either.left(`${command} needs a configuration file (TOML)`)
  return Either.right([command, ...options, ...(files.length === 0 ? [] : ["--", ...files])])
}
