/**
 * The fused head, forward and backward, beside PyTorch's linear layer and cross-entropy in its fastest form: plain or in
 * chunks, float32, autocast or bfloat16 weights. Programs take turns; a ratio is PyTorch's time by ours, the median over
 * the rounds. `cpu` ratios are of processor time, which a busy machine distorts less.
 *
 *     npm run bench:head [rounds] [form of PyTorch, else the fastest of all, e.g. "autocast"]
 */
import { median, table } from "./numbers.ts"
import {
  ceiling,
  fastest,
  howToInstall,
  inTurns,
  native,
  type Program,
  ratios,
  spread,
  start,
  torch,
  torchVersion
} from "./rivals.ts"

const rounds = Number(process.argv[2] ?? 7)
const only = process.argv[3]
const shape = { tokens: 2048, hidden: 512, vocabulary: 32_000, threads: 2 }
const precisions = ["float32", "bfloat16"] as const
const share = 0.2

const flops = 6 * shape.tokens * shape.hidden * shape.vocabulary

const own = (precision: string, trained: number): Program => ({
  name: `primerl ${precision}${trained < 1 ? `, ${trained * 100} % trained` : ""}`,
  command: native("head"),
  args: [shape.tokens, shape.hidden, shape.vocabulary, shape.threads, precision, trained].map(String)
})

const peer = (precision: string, chunk: number) =>
  torch(
    "head_torch.py",
    `${precision}${chunk === 0 ? "" : ` in chunks of ${chunk}`}`,
    { ...shape, precision, chunk },
    shape.threads
  )

const peersOf = { float32: ["float32"], bfloat16: ["autocast", "bfloat16"] }

const version = torchVersion()
const rows: Array<ReadonlyArray<string>> = []
const figures: Array<string> = []
for (const precision of precisions) {
  const best =
    version === undefined
      ? undefined
      : await fastest(
          peersOf[precision].flatMap((kind) => [0, 256, 512].map((chunk) => peer(kind, chunk))),
          only
        )
  const top = ceiling(shape.threads, precision)
  const programs = [own(precision, 1), own(precision, share), ...(best === undefined ? [] : [best])]
  const rivals = []
  for (const program of programs) rivals.push(await start(program))
  const found = await inTurns(rivals, rounds)
  for (const rival of rivals) await rival.end()
  for (const [i, rival] of rivals.entries()) {
    const times = found[i]!.map(({ ms }) => ms)
    const rate = ((i === 1 ? share : 1) * flops) / median(times) / 1e6
    const memory = Math.max(...found[i]!.map(({ peak }) => peak)) - Number(rival.first.base)
    rows.push([
      rival.name,
      spread(times),
      median(found[i]!.map(({ cpuMs }) => cpuMs)).toFixed(0),
      rate.toFixed(0),
      `${((100 * rate) / (top.flops / 1e9)).toFixed(0)} %`,
      (memory / 2 ** 20).toFixed(0)
    ])
  }
  const [all, some, theirs] = found
  if (theirs === undefined) rows.push([`torch ${precision}`, howToInstall, "", "", "", ""])
  else {
    const { cpu, wall } = ratios(all!, theirs)
    figures.push(`ratio head_${precision} ${wall.toFixed(2)}`, `ratio head_${precision}_cpu ${cpu.toFixed(2)}`)
  }
  const skipped = ratios(some!, all!)
  figures.push(
    `ratio head_${precision}_skipping ${skipped.wall.toFixed(2)}`,
    `ratio head_${precision}_skipping_cpu ${skipped.cpu.toFixed(2)}`
  )
  rows.push([`ceiling: ${top.kernel}`, "", "", (top.flops / 1e9).toFixed(0), "100 %", ""])
}
console.log(`${JSON.stringify(shape)}, torch ${version ?? "is missing"}`)
console.log(table(["program", "ms", "cpu ms", "GF/s", "of ceiling", "MB beside inputs"], rows))
console.log(figures.join("\n"))
