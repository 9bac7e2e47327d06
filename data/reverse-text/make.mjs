/**
 * Makes sentences.txt from the plain text of a book: `node data/reverse-text/make.mjs BOOK.txt > sentences.txt`.
 * The same book gives the same bytes. README.md says which book, and describes the rules.
 */
import { readFileSync } from "node:fs"

const SEED = 1851
const SHORTEST = 8
const LONGEST = 32
const UNWANTED =
  /nigg|negro|black(a)?moor|savage|cannibal|heathen|pagan|barbar|squaw|whore|harlot|bastard|damn|hell|devil|god\b|christ|jew|turk|mahomet|slave|sex|sperm|breast|naked|kill|murder|suicid|blood|corpse|\bhang|\bcock\b|\bdick\b|\bass\b|wench/i

const [path] = process.argv.slice(2)
if (path === undefined) {
  process.stderr.write("usage: node make.mjs BOOK.txt\n")
  process.exit(2)
}

const text = readFileSync(path, "utf8")
  .replace(/\r/g, "")
  .replace(/^(CHAPTER \d+|EPILOGUE|ETYMOLOGY|EXTRACTS|Epilogue)\b.*(\n(?!\n).*)*$/gm, "\n")
  .replace(/[‘’]/g, "'")
  .replace(/[“”]/g, '"')
  .replace(/[–—]|--+/g, " | ")

/** Fragments between sentence and clause ends, whole lines of a paragraph joined. */
const fragments = text.split(/\n\s*\n/).flatMap((paragraph) =>
  paragraph
    .replace(/\s+/g, " ")
    .split(/(?<=[.!?;:,])["')\]]*\s+|\s*\|\s*|["()[\]_]/)
    .map((fragment) => fragment.replace(/^['\s]+|[\s';:,]+$/g, ""))
)

const wanted = (fragment) =>
  fragment.length >= SHORTEST &&
  fragment.length <= LONGEST &&
  /^[A-Za-z][A-Za-z ,.'!?-]*$/.test(fragment) &&
  /[a-z]/.test(fragment) &&
  / /.test(fragment) &&
  !/\b[A-Z]{2,}\b/.test(fragment) &&
  !/\b(Mr|Mrs|Dr|St|Capt|No|Vol|Chap)\.$/.test(fragment) &&
  !/[,.'!?-]{2}/.test(fragment) &&
  !UNWANTED.test(fragment)

const distinct = new Map()
for (const fragment of fragments) {
  if (wanted(fragment) && !distinct.has(fragment.toLowerCase())) distinct.set(fragment.toLowerCase(), fragment)
}

/** Mulberry32: a small generator of uniform numbers in [0, 1) with 32 bits of state. */
const generator = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296
}

const sentences = [...distinct.values()].sort()
const random = generator(SEED)
for (let i = sentences.length - 1; i > 0; i--) {
  const j = Math.floor(random() * (i + 1))
  ;[sentences[i], sentences[j]] = [sentences[j], sentences[i]]
}
process.stdout.write(`${sentences.join("\n")}\n`)
