/** `packing.json`: as few micro-batches and as light a heaviest worker as the record, with every token exactly once. */
import * as Effect from "effect/Effect"
import * as MicroBatch from "../MicroBatch.ts"
import { hasMembers, type TrainingSample, truncate } from "../TrainingSample.ts"
import * as Cases from "./Cases.ts"
import { Tally } from "./Check.ts"

type Case = (typeof Cases.PackingCases.Type)["cases"][number]

const sum = (values: Iterable<number>) => [...values].reduce((total, value) => total + value, 0)

/** The transformer that the records of cost "flops" were made with. */
const flops = MicroBatch.flopsCost({
  hiddenSize: 1024,
  intermediateSize: 3072,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  headDim: 128,
  vocabSize: 151_936
})

/** Ids count through all samples, so that a token is known again wherever it is packed. */
const samplesOf = ({ lengths, streams }: Case): ReadonlyArray<TrainingSample> => {
  let next = 0
  return lengths.map((length, index) => {
    const full = (value: number) => new Float32Array(length).fill(value)
    const tokenIds = Int32Array.from({ length }, () => next++)
    return {
      rollout: `sample ${index}`,
      source: "packing",
      policyVersion: 0,
      tokenIds,
      mask: Uint8Array.from({ length }, (_, i) => (i > 0 ? 1 : 0)),
      logprobs: full(-1),
      temperatures: full(1),
      advantages: full(1),
      referenceLogprobs: streams && index % 3 === 0 ? full(-1) : undefined,
      rlWeights: streams && index % 5 === 0 ? full(0) : undefined,
      ceWeights: streams && index % 4 === 0 ? full(0.5) : undefined,
      refKlWeights: streams && index % 3 === 0 ? full(1) : undefined
    }
  })
}

/** Ids of all real tokens in the order of their samples: every one once, none invented. */
const tokensOnce = (packed: MicroBatch.PackedBatch, samples: ReadonlyArray<TrainingSample>, most: number): boolean => {
  const found: Array<number> = []
  for (const batch of packed.microBatches.flat()) {
    if (batch.dummy) continue
    let at = 0
    for (const [index, length] of batch.sequenceLengths.entries()) {
      const real = batch.samples[index]?.tokenIds.length ?? 0
      if (real > length) return false
      found.push(...batch.tokenIds.subarray(at, at + real))
      at += length
    }
  }
  // A sample is left out only when the cut takes everything that it trains.
  const wanted = samples
    .filter((sample) => sample.tokenIds.length <= most || hasMembers(truncate(sample, most)))
    .flatMap(({ tokenIds }) => [...tokenIds.subarray(0, most)])
  found.sort((a, b) => a - b)
  return found.length === wanted.length && found.every((id, i) => id === wanted[i])
}

/** @category checks */
export const check = (folder: string) =>
  Effect.gen(function* () {
    const { cases } = yield* Cases.read(`${folder}/packing.json`, Cases.PackingCases)
    const tally = new Tally("packing.json")
    for (const testCase of cases) {
      const { maxSequenceLength, name, padToMultipleOf, workers } = testCase
      const cost = testCase.cost === "flops" ? flops : (lengths: ReadonlyArray<number>) => sum(lengths)
      for (const [lengths, expected] of Object.entries(testCase.binCostOf)) {
        tally.relative("cost", cost(JSON.parse(lengths) as Array<number>), expected, 1e-9, `${name} ${lengths}`)
      }
      const samples = samplesOf(testCase)
      const packed = MicroBatch.pack(samples, { maxSequenceLength, workers, padToMultipleOf, cost })
      const { expected } = testCase
      const most = (counts: ReadonlyArray<number>) => Math.max(0, ...counts)
      tally.note(
        "micro-batches over the record",
        Math.max(0, sum(packed.microBatches.map((part) => part.length)) - sum(expected.map((part) => part.length))),
        0,
        name
      )
      tally.note(
        "micro-batches of a worker over the record",
        Math.max(0, most(packed.microBatches.map((part) => part.length)) - most(expected.map((part) => part.length))),
        0,
        name
      )
      const load = most(packed.microBatches.map((part) => sum(part.map((b) => cost([...b.sequenceLengths])))))
      const recorded = most(expected.map((part) => sum(part.map((b) => cost(b.sequenceLengths)))))
      tally.note("heaviest worker over the record", Math.max(0, load - recorded) / recorded, 0, name)
      tally.holds("every token exactly once", tokensOnce(packed, samples, maxSequenceLength), name)
      tally.holds(
        "as many micro-batches on every worker",
        packed.microBatches.length === workers && new Set(packed.microBatches.map((part) => part.length)).size === 1,
        name
      )
    }
    return tally.checks
  })
