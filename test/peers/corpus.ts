/** Texts of many kinds, the same for the same seed: what tokenizers are compared and measured on. */

export const kinds = ["prose", "code", "cjk", "emoji", "chat", "unicode", "unique"] as const
export type Kind = (typeof kinds)[number]

/** mulberry32 */
const makeRandom = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(next() * limit)
  return {
    next,
    below,
    pick: <A>(items: ReadonlyArray<A>): A => items[below(items.length)]!,
    /** the first are the most frequent, about as words are in a language */
    common: <A>(items: ReadonlyArray<A>): A => items[Math.floor(items.length ** next()) - 1]!
  }
}
type Random = ReturnType<typeof makeRandom>

const words =
  `the of and to a in is it you that he was for on are with as I his they be at one have this from or had by not but what
  some we can out other were all there when up use your how said an each she which do their time if will way about many
  then them would write like so these her long make thing see him two has look more day could go come did number sound no
  most people my over know water than call first who may down side been now find any new work part take get place made live
  where after back little only round man year came show every good me give our under name very through just form sentence
  great think say help low line differ turn cause much mean before move right boy old too same tell does set three want air
  well also play small end put home read hand port large spell add even land here must big high such follow act why ask men
  change went light kind off need house picture try us again animal point mother world near build self earth father
  reinforcement learning policy gradient advantage rollout tokenizer environment trajectory model training reward language
  observation inference asynchronous distributed implementation characteristics responsibility nevertheless understanding`
    .trim()
    .split(/\s+/)
const syllables = "ba ce di fo gu ha je ki lo mu na pe qui ro su ta ve wi xo yu za str thr ing tion ment ough ly".split(
  " "
)
const endings = [".", ".", ".", "!", "?", "...", ";", " —", ":"]
const contractions = ["don't", "I'm", "they've", "we'll", "it's", "he'd", "you're", "WE'LL", "O'Neill's"]

const invented = (random: Random) => Array.from({ length: 1 + random.below(4) }, () => random.pick(syllables)).join("")
const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1)

const prose = (random: Random): string => {
  const sentence = Array.from({ length: 4 + random.below(18) }, () => {
    const kind = random.below(100)
    const word =
      kind < 88
        ? random.common(words)
        : kind < 92
          ? invented(random)
          : kind < 95
            ? random.pick(contractions)
            : kind < 97
              ? String(random.below(100_000))
              : `"${random.pick(words)}"`
    return kind % 17 === 0 ? `${word},` : word
  })
  return `${capital(sentence.join(" "))}${random.pick(endings)}${random.below(8) === 0 ? "\n\n" : " "}`
}

const identifier = (random: Random) =>
  Array.from({ length: 1 + random.below(3) }, () => random.common(words))
    .map((word, at) => (at === 0 ? word.toLowerCase() : random.below(2) === 0 ? capital(word) : `_${word}`))
    .join("")

const code = (random: Random): string => {
  const [a, b, c] = [identifier(random), identifier(random), identifier(random)]
  const indent = random.pick(["", "  ", "    ", "\t", "        "])
  const lines = [
    `${indent}const ${a} = await ${b}(${c}, ${random.below(1000)})\n`,
    `${indent}if (${a} !== undefined && ${b}[${c}] >= ${random.next().toFixed(3)}) {\n`,
    `${indent}}\n\n`,
    `${indent}def ${a}(self, ${b}: int = ${random.below(99)}) -> str:\n`,
    `${indent}return {"${a}": ${b}.${c}, '${c}': [1, 2.5e-3, null, true]}\n`,
    `${indent}// ${random.common(words)} ${random.common(words)} ${a}\r\n`,
    `${indent}<div class="${a}-${b}">&nbsp;{${c}}</div>\n`,
    `${indent}printf("%5.2f\\t%s\\n", ${a}->${b}, &${c}); /* ${"-".repeat(random.below(40))} */\n`,
    `${indent}#include <${a}/${b}.h>  ${" ".repeat(random.below(30))}\\\n`
  ]
  return random.pick(lines)
}

const between = (random: Random, first: number, last: number) =>
  String.fromCodePoint(first + Math.floor((last - first) * random.next() ** 2))
const cjk = (random: Random): string => {
  const [first, last] = random.pick([
    [0x4e00, 0x9fa5],
    [0x4e00, 0x62ff],
    [0x3041, 0x3096],
    [0x30a1, 0x30fa],
    [0xac00, 0xd7a3]
  ] as const)
  const run = Array.from({ length: 3 + random.below(20) }, () => between(random, first, last)).join("")
  return run + random.pick(["，", "。", "、", "！\n", "「", "」", " ", String(random.below(10_000)), "ー", "（", "）"])
}

const faces = ["😀", "😃", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "👍🏽", "🤷‍♀️", "❤️", "🫠", "🧑🏿‍🚀", "™", "①", "♟", "𝔘", "🏴󠁧󠁢󠁳󠁣󠁴󠁿"]
const emoji = (random: Random): string =>
  random.below(3) === 0
    ? `${random.common(words)} `
    : random.pick(faces) + random.pick(["", "", " ", "\n", "\u200d", "!"])

const unicode = (random: Random): string => {
  const block = random.below(10) < 6 ? 0x3000 : random.below(10) < 8 ? 0x10000 : 0x110000
  const point = random.below(block)
  const text = point >= 0xd800 && point < 0xe000 ? "\ufffd" : String.fromCodePoint(point)
  // the long s: whether it makes a contraction depends on whose regular expressions fold it
  return (text === "\u017f" ? "" : text) + random.pick(["", "", "", "", " ", "\n", "a", "\u0301", "  "])
}

const unique = (random: Random): string => {
  const length = 4 + random.below(12)
  return `${Array.from({ length }, () => String.fromCharCode(97 + random.below(26))).join("")} `
}

/** About so many characters of one kind; `specials` are those that a chat is dense with. */
export const makeText = (kind: Kind, size: number, seed: number, specials: ReadonlyArray<string> = []): string => {
  const random = makeRandom(seed * 7919 + kinds.indexOf(kind))
  const chat = (): string => {
    const body = random.below(4) === 0 ? code(random) : prose(random).trim()
    return `${random.pick(specials)}${random.pick(["user", "assistant", "tool", "system"])}\n${body}${random.pick(specials)}\n`
  }
  const make = { prose, code, cjk, emoji, chat, unicode, unique }[kind]
  const parts: Array<string> = []
  for (let length = 0; length < size; length += parts.at(-1)!.length) parts.push(make(random))
  return parts.join("")
}

// so that the kinds that have more bytes to a character do not outweigh the others
const characters = { prose: 200_000, code: 200_000, cjk: 70_000, emoji: 55_000, chat: 200_000, unicode: 70_000 }

/** A megabyte of UTF-8, of all kinds but the last; `share` of it, when given. */
export const makeMixed = (seed: number, specials: ReadonlyArray<string>, share = 1) =>
  kinds
    .filter((kind) => kind !== "unique")
    .map((kind) => ({ kind, text: makeText(kind, characters[kind] * share, seed, specials) }))
