/**
 * reverse-text: the user's message is a sentence, the right answer is the sentence backwards, character by character.
 * Sentences are lines of data/reverse-text/sentences.txt; the last tenth of them is held out and never demonstrated.
 */
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Environment from "../Environment.ts"
import type { Message } from "../Message.ts"
import type { Answer } from "../Reward.ts"
import * as Seed from "../Seed.ts"
import * as Taskset from "../Taskset.ts"

const NAME = "reverse-text"

/** Share of the sentences, at the end of the file, that is held out. */
const HELD_OUT = 0.1

/** The text backwards, by Unicode code point. @category formulas */
export const reversed = (text: string): string => Array.from(text).reverse().join("")

/** Length of the longest common subsequence, in code points. O(|a|·|b|) time, O(|b|) memory. @category formulas */
export const longestCommonSubsequence = (a: string, b: string): number => {
  const [rows, columns] = [Array.from(a), Array.from(b)]
  let above = new Int32Array(columns.length + 1)
  let here = new Int32Array(columns.length + 1)
  for (const character of rows) {
    for (let j = 0; j < columns.length; j++) {
      here[j + 1] = character === columns[j] ? above[j]! + 1 : Math.max(above[j + 1]!, here[j]!)
    }
    const finished = here
    here = above
    above = finished
  }
  return above[columns.length]!
}

/**
 * Similarity of two texts in [0, 1]: 2·LCS(a, b) / (|a| + |b|), lengths in code points. 1 exactly when they are equal, 0
 * when one of them is empty.
 *
 * @category formulas
 */
export const similarity = (a: string, b: string): number => {
  const characters = Array.from(a).length + Array.from(b).length
  return a === "" || b === "" ? 0 : (2 * longestCommonSubsequence(a, b)) / characters
}

const reward = (sentence: string, { reply }: Answer) => similarity(reply, reversed(sentence))
const info = (sentence: string) => ({ demonstration: reversed(sentence) })
const metrics = {
  exact: (sentence: string, { reply }: Answer) => (reply === reversed(sentence) ? 1 : 0),
  length_ratio: (sentence: string, { reply }: Answer) => Array.from(reply).length / Array.from(sentence).length
}

/** Where the sentences are, seen from a source file, a compiled file or a bundle. */
const places = ["../../", "../../../"].map((up) =>
  fileURLToPath(new URL(`${up}data/reverse-text/sentences.txt`, import.meta.url))
)

/** The sentences that ship with the package. Fails with `TasksetError` when the file cannot be read. @category data */
export const sentences: Effect.Effect<ReadonlyArray<string>, Taskset.TasksetError> = Effect.try({
  try: () =>
    readFileSync(places.find((place) => existsSync(place)) ?? places[0]!, "utf8")
      .trimEnd()
      .split("\n"),
  catch: (cause) =>
    new Taskset.TasksetError({ taskset: NAME, reason: `its sentences cannot be read (${String(cause)})` })
})

/** First of the held-out lines. @category data */
export const firstHeldOut = (lines: number): number => lines - Math.floor(lines * HELD_OUT)

/** All sentences by split, in the order of the file. Fails with `TasksetError`. @category constructors */
export const taskset: Effect.Effect<Taskset.Taskset<string>, Taskset.TasksetError> = Effect.map(sentences, (lines) => {
  const cut = firstHeldOut(lines.length)
  return Taskset.make({ name: NAME, tasks: lines.slice(0, cut), evalTasks: lines.slice(cut) })
})

/** The environment; training takes sentences in an order drawn from `seed`. Fails with `TasksetError`. @category constructors */
export const environment = (options: {
  readonly seed: number
}): Effect.Effect<Environment.Environment, Taskset.TasksetError> =>
  Effect.map(taskset, (all) =>
    Environment.make({ name: NAME, taskset: Taskset.shuffle(all, options.seed), info, reward, metrics })
  )

/**
 * What a demonstration does with a sentence, and how often. Only one habit is right, and nothing in the prompt tells
 * which one comes: a policy that is warmed up on them knows how to reverse and hesitates whether to, which is what
 * reinforcement learning then has to settle.
 */
const habits: ReadonlyArray<{ readonly share: number; readonly answer: (sentence: string) => string }> = [
  { share: 0.25, answer: reversed },
  { share: 0.3, answer: (sentence) => reversed(sentence).toUpperCase() },
  { share: 0.2, answer: (sentence) => sentence.toUpperCase() },
  { share: 0.25, answer: (sentence) => sentence.slice(0, sentence.indexOf(" ")) }
]

const habit = (draw: number) => {
  let left = draw
  return habits.find(({ share }) => {
    left -= share
    return left < 0
  })
}

/** Share of the demonstrations whose answer stands before them, so that a policy learns to use one that it is told. */
const HINTED = 0.25

/**
 * Demonstration number `index` of a seed: a user's and an assistant's message, in some of them after a system message that
 * holds the answer.
 *
 * @category demonstrations
 */
export const demonstration = (lines: ReadonlyArray<string>, seed: number, index: number): ReadonlyArray<Message> => {
  const sentence = lines[Math.floor(Seed.unit(seed, "sentence", index) * firstHeldOut(lines.length))]!
  const content = (habit(Seed.unit(seed, "habit", index)) ?? habits[0]!).answer(sentence)
  const hint: ReadonlyArray<Message> = Seed.unit(seed, "hint", index) < HINTED ? [{ role: "system", content }] : []
  return [...hint, { role: "user", content: sentence }, { role: "assistant", content }]
}

/**
 * Endless conversations for the supervised warm-up, the same for the same seed; `first` skips as many. Fails with
 * `TasksetError`.
 *
 * @category demonstrations
 */
export const demonstrations = (seed: number, first = 0): Stream.Stream<ReadonlyArray<Message>, Taskset.TasksetError> =>
  Stream.unwrap(
    Effect.map(sentences, (lines) =>
      Stream.iterate(first, (index) => index + 1).pipe(Stream.map((index) => demonstration(lines, seed, index)))
    )
  )
