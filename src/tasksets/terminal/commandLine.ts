/**
 * Command lines as the terminal world takes them: one program of a short list, its options, words with quotes, and `> FILE`
 * behind `echo`. No shell reads them, so that there is nothing to expand, to chain or to substitute.
 */
import * as Either from "effect/Either"
import type { Command } from "../../Runtime.ts"
import { staysInside } from "../../runtimes/Process.ts"

interface Rule {
  /** letters that may stand behind a dash */
  readonly options: string
  /** how many words that are not options come first and are no paths */
  readonly plain: number
  /** fewest and most words that are no options */
  readonly words: readonly [fewest: number, most: number]
}

const rules: Readonly<Record<string, Rule>> = {
  ls: { options: "aR1", plain: 0, words: [0, 8] },
  cat: { options: "n", plain: 0, words: [1, 8] },
  grep: { options: "rlinvcF", plain: 1, words: [1, 8] },
  mv: { options: "", plain: 0, words: [2, 8] },
  cp: { options: "r", plain: 0, words: [2, 8] },
  mkdir: { options: "p", plain: 0, words: [1, 8] },
  rm: { options: "rf", plain: 0, words: [1, 8] },
  echo: { options: "", plain: Number.POSITIVE_INFINITY, words: [0, 64] }
}

/** Programs that a command line may name. @category constants */
export const programs: ReadonlyArray<string> = Object.keys(rules)

type Word = { readonly text: string; readonly quoted: boolean }

/** Words of a line: what stands in quotes is one, with its spaces and signs. */
const wordsOf = (line: string): Either.Either<ReadonlyArray<Word>, string> => {
  const words: Array<Word> = []
  const word = /\s*(?:'([^']*)'|"([^"]*)"|(>)|([^\s'">]+))/y
  for (let at = 0; at < line.trimEnd().length; at = word.lastIndex) {
    word.lastIndex = at
    const found = word.exec(line)
    if (found === null) return Either.left("a quote is never closed")
    const [, single, double, into, bare = ""] = found
    const quoted = single ?? double
    const sign = /[|&;<$`*?(){}\\~#!]/.exec(bare)
    if (sign !== null) return Either.left(`${sign[0]} is not understood: give one command at a time`)
    words.push(quoted === undefined ? { text: into ?? bare, quoted: false } : { text: quoted, quoted: true })
  }
  return Either.right(words)
}

/** The words before a `>` and the file after it. */
const redirected = (
  program: string,
  words: ReadonlyArray<Word>
): Either.Either<{ readonly words: ReadonlyArray<string>; readonly output: string | undefined }, string> => {
  const at = words.findIndex(({ quoted, text }) => text === ">" && !quoted)
  const texts = words.map(({ text }) => text)
  if (at === -1) return Either.right({ words: texts, output: undefined })
  if (program !== "echo") return Either.left("> comes behind echo alone")
  if (at !== words.length - 2) return Either.left("> is followed by one file")
  return Either.right({ words: texts.slice(0, at), output: texts[at + 1] })
}

/** The command that a line asks for, or why it is none. @category parsing */
export const parse = (line: string): Either.Either<Command, string> =>
  Either.gen(function* () {
    if (line.includes("\0") || line.length > 2000)
      return yield* Either.left("the line is too long or holds a zero byte")
    const [first, ...rest] = yield* wordsOf(line)
    if (first === undefined) return yield* Either.left("there is no command")
    const program = first.text
    const rule = Object.hasOwn(rules, program) ? rules[program] : undefined
    if (rule === undefined) return yield* Either.left(`${program}: no such command; there are ${programs.join(", ")}`)
    const { output, words } = yield* redirected(program, rest)
    const isOption = (word: string) => rule.plain !== Number.POSITIVE_INFINITY && word.startsWith("-") && word !== "-"
    const options = words.filter(isOption)
    const unknown = options.find((word) => !Array.from(word.slice(1)).every((letter) => rule.options.includes(letter)))
    if (unknown !== undefined) return yield* Either.left(`${program}: there is no option ${unknown}`)
    const given = words.filter((word) => !isOption(word))
    const [fewest, most] = rule.words
    if (given.length < fewest || given.length > most)
      return yield* Either.left(`${program}: ${given.length} names given`)
    const paths = [...given.slice(rule.plain), ...(output === undefined ? [] : [output])]
    const outside = paths.find((path) => !staysInside(path))
    if (outside !== undefined) return yield* Either.left(`${program}: ${outside}: only names in this folder`)
    if (program === "echo") return { program, args: given, output }
    // What begins with a dash behind it is a name.
    return { program, args: [...options, "--", ...given] }
  })
