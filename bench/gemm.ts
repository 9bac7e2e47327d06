/**
 * The matrix products of a training step and of the head, ours beside the BLAS under PyTorch (OpenBLAS where Debian's is
 * installed), in turns. A ratio is theirs by ours, the median over the rounds. In bfloat16 ours takes float32 operands and
 * rounds them, as training does; PyTorch's are bfloat16 already, with oneDNN under them, which needs AVX-512.
 *
 *     npm run bench:gemm [rounds]
 */
import { median, table } from "./numbers.ts"
import {
  ceiling,
  howToInstall,
  inTurns,
  native,
  ratios,
  spread,
  start,
  torch,
  torchHasBfloat16,
  torchVersion
} from "./rivals.ts"

const threads = 2
const rounds = Number(process.argv[2] ?? 9)

/** Rows, columns and depth of the result: of the step of bench/step.ts, then of the head of bench/head.ts. */
const products = [
  { name: "queries", m: 4096, n: 256, k: 256, form: "forward" },
  { name: "gate", m: 4096, n: 768, k: 256, form: "forward" },
  { name: "gate_inputs", m: 4096, n: 256, k: 768, form: "inputs" },
  { name: "gate_weights", m: 768, n: 256, k: 4096, form: "weights" },
  { name: "logits", m: 2048, n: 32_000, k: 512, form: "forward" },
  { name: "logits_inputs", m: 2048, n: 512, k: 32_000, form: "inputs" },
  { name: "logits_weights", m: 32_000, n: 512, k: 2048, form: "weights" }
] as const

const version = torchVersion()
const rows: Array<ReadonlyArray<string>> = []
const figures: Array<string> = []

for (const precision of ["float32", "bfloat16"]) {
  const top = ceiling(threads, precision)
  for (const { form, k, m, n, name } of products) {
    const own = {
      name: `primerl ${precision}`,
      command: native("gemm"),
      args: [m, n, k, form, threads, precision].map(String)
    }
    const peer = torch("gemm_torch.py", precision, { m, n, k, form, threads, precision }, threads)
    const rivals = [await start(own)]
    if (version !== undefined && (precision === "float32" || torchHasBfloat16)) rivals.push(await start(peer))
    const found = await inTurns(rivals, rounds)
    for (const rival of rivals) await rival.end()
    for (const [i, rival] of rivals.entries()) {
      const times = found[i]!.map(({ ms }) => ms)
      const rate = (2 * m * n * k) / median(times) / 1e6
      rows.push([
        `${name} ${m}x${n}x${k}`,
        rival.name,
        spread(times, 1),
        rate.toFixed(0),
        `${((100 * rate) / (top.flops / 1e9)).toFixed(0)} %`
      ])
    }
    if (found[1] !== undefined) {
      const { cpu, wall } = ratios(found[0]!, found[1])
      figures.push(`ratio gemm_${name}_${precision} ${wall.toFixed(2)}`)
      figures.push(`ratio gemm_${name}_${precision}_cpu ${cpu.toFixed(2)}`)
    }
  }
  rows.push([`ceiling: ${top.kernel}`, "", "", (top.flops / 1e9).toFixed(0), "100 %"])
}
console.log(figures.join("\n"))
console.log(`${threads} threads, ${rounds} rounds, torch ${version ?? `is missing: ${howToInstall}`}`)
console.log(table(["product", "program", "ms", "GF/s", "of ceiling"], rows))
