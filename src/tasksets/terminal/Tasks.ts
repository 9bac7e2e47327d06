/** Tasks of the terminal world, each from a seed: a folder as it is found, what is asked, and how it must be left. */
import * as Seed from "../../Seed.ts"

/** Paths with their texts; a folder's path ends with a slash. @category model */
export type Files = Readonly<Record<string, string>>

/** What is to be done in a folder. @category model */
export interface Task {
  readonly key: string
  readonly prompt: string
  readonly before: Files
  readonly after: Files
  /** command lines that do it, the first of them looking where there is something to find out */
  readonly solution: ReadonlyArray<string>
  /** the kind of task, and what a rash answer would do instead of looking */
  readonly kind: Kind
  readonly rash: string
}

/** What is asked for. @category model */
export type Kind = "remove" | "rename" | "copy" | "put"

const names = ["plum", "fig", "pear", "lime", "kiwi", "date", "melon", "grape", "apple", "lemon", "peach", "mango"]
const contents = ["red", "blue", "green", "white", "black", "brown", "pink", "grey", "gold", "silver"]
const folders = ["oak", "elm", "ash", "pine", "birch", "cedar"]

/** Words that tasks are made of, each of which a small tokenizer may know as one. @category constants */
export const words: ReadonlyArray<string> = [...names, ...contents, ...folders]

const kinds: ReadonlyArray<Kind> = ["remove", "rename", "copy", "put"]

/** The folder sorted as `ls` sorts it. */
const sorted = (files: Files): Files =>
  Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))

const text = (content: string) => `${content}\n`

const without = (files: Files, name: string): Files => {
  const { [name]: _, ...rest } = files
  return rest
}

/** Number of files that a folder holds at first. */
const FILES = 3

/** Task number `index` of a seed and a split. @category constructors */
export const make = (seed: number, split: string, index: number): Task => {
  const draw = (what: string, size: number) => Seed.permutation(size, Seed.of(seed, split, index, what))
  const kind = kinds[Math.floor(Seed.unit(seed, split, index, "kind") * kinds.length)]!
  const order = draw("names", names.length)
  const present = Array.from(order.subarray(0, FILES), (i) => names[i]!)
  const [free, guess] = [names[order[FILES]!]!, names[order[FILES + 1]!]!]
  const held = draw("contents", contents.length)
  const content = (i: number) => contents[held[i]!]!
  const files: Files = Object.fromEntries(present.map((name, i) => [name, text(content(i))]))
  const chosen = Math.floor(Seed.unit(seed, split, index, "chosen") * FILES)
  const target = present[chosen]!
  const named = { key: `${split}/${index}`, kind }
  const done = (prompt: string, before: Files, after: Files, solution: ReadonlyArray<string>, rash: string): Task => ({
    ...named,
    prompt,
    before: sorted(before),
    after: sorted(after),
    solution,
    rash
  })
  const says = content(chosen)
  const look = `grep -rl ${says}`
  if (kind === "remove")
    return done(
      `Remove the file that says ${says}.`,
      files,
      without(files, target),
      [look, `rm ${target}`],
      `rm ${guess}`
    )
  if (kind === "rename")
    return done(
      `Rename the file that says ${says} to ${free}.`,
      files,
      { ...without(files, target), [free]: text(says) },
      [look, `mv ${target} ${free}`],
      `mv ${guess} ${free}`
    )
  if (kind === "copy")
    return done(
      `Copy the file that says ${says} to ${free}.`,
      files,
      { ...files, [free]: text(says) },
      [look, `cp ${target} ${free}`],
      `cp ${guess} ${free}`
    )
  const folder = folders[Math.floor(Seed.unit(seed, split, index, "folder") * folders.length)]!
  const there = Seed.unit(seed, split, index, "there") < 0.5
  return done(
    `Put ${target} into the folder ${folder}.`,
    there ? { ...files, [`${folder}/`]: "" } : files,
    { ...without(files, target), [`${folder}/`]: "", [`${folder}/${target}`]: text(says) },
    ["ls", ...(there ? [] : [`mkdir ${folder}`]), `mv ${target} ${folder}`],
    `mv ${target} ${folder}`
  )
}
