import { readFileSync } from "node:fs"
import * as FastCheck from "effect/FastCheck"
import { describe, expect, it } from "vitest"
import { balancedPartition } from "../src/internal/balancedPartition.ts"
import { splitToFill } from "../src/internal/firstFitDecreasing.ts"
import * as MicroBatch from "../src/MicroBatch.ts"
import * as TrainingSample from "../src/TrainingSample.ts"

interface Case {
  readonly name: string
  readonly lengths: ReadonlyArray<number>
  readonly maxSequenceLength: number
  readonly workers: number
  readonly padToMultipleOf: number
  readonly cost: "tokens" | "flops"
  readonly streams: boolean
  readonly binCostOf: Readonly<Record<string, number>>
  readonly expected: ReadonlyArray<
    ReadonlyArray<{
      readonly tokens: number
      readonly sequenceLengths: ReadonlyArray<number>
      readonly samples: ReadonlyArray<number>
      readonly positionIds: ReadonlyArray<number> | null
      readonly dummy: boolean
      readonly streams: Readonly<Record<string, number | null>>
      readonly lossTokens: number
    }>
  >
}
const { cases } = JSON.parse(readFileSync(new URL("data/cases/packing.json", import.meta.url), "utf8")) as {
  readonly cases: ReadonlyArray<Case>
}

const sum = (values: ArrayLike<number>) => Array.from(values).reduce((total, value) => total + value, 0)

/** Sample number `index`: each token id says where it comes from, so that it can be found again. */
const sample = (
  index: number,
  length: number,
  more: Partial<TrainingSample.TrainingSample> = {}
): TrainingSample.TrainingSample => ({
  rollout: String(index),
  source: "s",
  policyVersion: 0,
  tokenIds: Int32Array.from({ length }, (_, i) => 1000 * (index + 1) + i),
  mask: Uint8Array.from({ length }, (_, i) => (i >= Math.floor(length / 2) && i > 0 ? 1 : 0)),
  logprobs: new Float32Array(length).fill(-1),
  temperatures: new Float32Array(length).fill(0.7),
  advantages: new Float32Array(length).fill(1),
  referenceLogprobs: undefined,
  rlWeights: undefined,
  ceWeights: undefined,
  refKlWeights: undefined,
  ...more
})
const full = (length: number, value: number) => new Float32Array(length).fill(value)

const flops = MicroBatch.flopsCost({
  hiddenSize: 1024,
  intermediateSize: 3072,
  layers: 28,
  heads: 16,
  kvHeads: 8,
  headDim: 128,
  vocabSize: 151936
})

describe("packing cases", () => {
  it.each(cases)("$name: no more micro-batches and no heavier worker than the record", (testCase) => {
    const { lengths, maxSequenceLength, padToMultipleOf, streams, workers } = testCase
    const cost = testCase.cost === "flops" ? flops : sum
    for (const [key, value] of Object.entries(testCase.binCostOf)) {
      expect(cost(JSON.parse(key) as Array<number>)).toBe(value)
    }
    const samples = lengths.map((n, i) =>
      sample(i, n, {
        ...(streams && i % 5 === 0 ? { rlWeights: full(n, 0) } : {}),
        ...(streams && i % 4 === 0 ? { ceWeights: full(n, 0.5) } : {}),
        ...(streams && i % 3 === 0 ? { refKlWeights: full(n, 1), referenceLogprobs: full(n, -1) } : {})
      })
    )
    const packed = MicroBatch.pack(samples, { maxSequenceLength, workers, padToMultipleOf, cost })
    const load = (loads: ReadonlyArray<ReadonlyArray<number>>) => Math.max(...loads.map(sum))
    const ours = load(packed.microBatches.map((part) => part.map((b) => cost([...b.sequenceLengths]))))
    const theirs = load(testCase.expected.map((part) => part.map((b) => cost(b.sequenceLengths))))
    expect(packed.microBatches.length).toBe(workers)
    expect(sum(packed.microBatches.map((part) => part.length))).toBeLessThanOrEqual(
      sum(testCase.expected.map((part) => part.length))
    )
    expect(ours).toBeLessThanOrEqual(theirs)

    const streamSum = (stream: Float32Array | undefined) => (stream === undefined ? null : sum(stream))
    const describeBatch = (batch: MicroBatch.MicroBatch) => ({
      tokens: batch.tokens,
      sequenceLengths: [...batch.sequenceLengths],
      samples: batch.samples.map(({ rollout }) => Number(rollout)),
      positionIds: [...batch.positionIds],
      dummy: batch.dummy,
      streams: {
        rlWeights: streamSum(batch.rlWeights),
        ceWeights: streamSum(batch.ceWeights),
        refKlWeights: streamSum(batch.refKlWeights),
        referenceLogprobs: streamSum(batch.referenceLogprobs)
      },
      lossTokens: sum(batch.mask)
    })
    // The micro-batches themselves are the recorded ones, whichever worker has them.
    const key = (batch: { readonly samples: ReadonlyArray<number>; readonly dummy: boolean }) =>
      `${batch.dummy} ${batch.samples.join()}`
    const found = new Map(packed.microBatches.flat().map((batch) => [key(describeBatch(batch)), describeBatch(batch)]))
    for (const batch of testCase.expected.flat()) {
      const same = found.get(key(batch))
      expect(same).toEqual(batch.positionIds === null ? { ...batch, positionIds: same?.positionIds } : batch)
    }
  })
})

describe("golden packs", () => {
  const lengthsOf = (packed: MicroBatch.PackedBatch) =>
    packed.microBatches.map((part) => part.map((b) => (b.dummy ? `${b.sequenceLengths}*` : `${b.sequenceLengths}`)))
  it.each<[ReadonlyArray<number>, number, number, ReadonlyArray<ReadonlyArray<string>>]>([
    [
      [100, 90, 80, 70],
      100,
      2,
      [
        ["90", "80"],
        ["100", "70"]
      ]
    ],
    [[6, 6, 5, 5, 4, 4], 12, 4, [["5,5"], ["4,4"], ["6"], ["6"]]],
    [[20, 18, 9, 9, 8, 8, 8], 64, 4, [["20,9"], ["18"], ["9,8"], ["8,8"]]],
    [[9, 7, 5, 3, 2, 1], 10, 1, [["9,1", "7,3", "5,2"]]],
    [
      [9, 7, 5, 3, 2, 1],
      10,
      2,
      [
        ["7", "5,2"],
        ["9,1", "3"]
      ]
    ],
    [[9, 7, 5, 3, 2, 1], 10, 4, [["9,1"], ["5,2"], ["7"], ["3"]]],
    [[12, 3], 8, 2, [["8"], ["3"]]],
    [[5], 16, 4, [["5*"], ["5*"], ["5*"], ["5"]]],
    [[7, 7, 7], 16, 2, [["7,7"], ["7"]]],
    [
      [4, 4, 4, 4, 4],
      4,
      2,
      [
        ["4", "4", "4*"],
        ["4", "4", "4"]
      ]
    ]
  ])("%j into %i over %i workers", (lengths, maxSequenceLength, workers, expected) => {
    const samples = lengths.map((length, index) => sample(index, length))
    const sorted = (parts: ReadonlyArray<ReadonlyArray<string>>) => parts.map((part) => [...part].sort()).sort()
    expect(sorted(lengthsOf(MicroBatch.pack(samples, { maxSequenceLength, workers })))).toEqual(sorted(expected))
  })

  it("balances by floating-point operations when asked", () => {
    const cost = MicroBatch.flopsCost({
      hiddenSize: 16,
      intermediateSize: 64,
      layers: 2,
      heads: 2,
      kvHeads: 2,
      headDim: 8,
      vocabSize: 32
    })
    expect([cost([32]), cost([16, 16]), cost([8, 8, 8, 8])]).toEqual([622592, 589824, 573440])
    const samples = [32, 32, 16, 16, 16, 16].map((length, index) => sample(index, length))
    const packed = MicroBatch.pack(samples, { maxSequenceLength: 32, workers: 2, cost })
    expect(lengthsOf(packed)).toEqual([
      ["32", "16,16"],
      ["32", "16,16"]
    ])
  })

  it("splits a bin by the longest processing time first", () => {
    const lengths = [9, 7, 5, 3, 2, 1]
    const split = splitToFill([[0, 1, 2, 3, 4, 5]], 2, (members) => sum(members.map((member) => lengths[member]!)))
    expect(split.map((bin) => bin.map((member) => lengths[member]))).toEqual([
      [9, 3, 2],
      [7, 5, 1]
    ])
  })

  it.each<[ReadonlyArray<number>, number, number]>([
    [[8, 7, 6, 5], 2, 13],
    [[10, 9, 8, 1, 1, 1], 2, 18],
    [[1, 2, 3, 4, 5, 6, 7, 8], 2, 18],
    [[23, 17, 11, 9, 8, 7, 3, 2, 1], 3, 27],
    [[23, 17, 11, 9, 8, 7, 3, 2], 2, 40],
    [[100, 1, 1, 1], 2, 101]
  ])("deals %j to %i workers with a heaviest load of %i", (weights, workers, most) => {
    const parts = balancedPartition(weights, workers)
    expect(parts.every((part) => part.length === weights.length / workers)).toBe(true)
    expect(parts.flat().sort((a, b) => a - b)).toEqual(weights.map((_, i) => i))
    expect(Math.max(...parts.map((part) => sum(part.map((i) => weights[i]!))))).toBe(most)
  })
})

const someSamples = FastCheck.array(
  FastCheck.record({ length: FastCheck.integer({ min: 1, max: 40 }), kind: FastCheck.integer({ min: 0, max: 3 }) }),
  { maxLength: 40 }
).map((specs) =>
  specs.map(({ kind, length }, index) =>
    sample(index, length, {
      ...(kind === 1 ? { rlWeights: full(length, 0), ceWeights: full(length, 0.5) } : {}),
      ...(kind === 2 ? { refKlWeights: full(length, 1), referenceLogprobs: full(length, -2) } : {}),
      ...(kind === 3 ? { advantages: undefined, mask: new Uint8Array(length), ceWeights: full(length, 1) } : {})
    })
  )
)

describe("any pack", () => {
  const options = FastCheck.record({
    maxSequenceLength: FastCheck.integer({ min: 8, max: 64 }),
    workers: FastCheck.integer({ min: 1, max: 5 }),
    padToMultipleOf: FastCheck.constantFrom(1, 2, 8)
  })

  it("holds every token exactly once, evenly spread, within the limit, with inert dummies", () => {
    FastCheck.assert(
      FastCheck.property(someSamples, options, (samples, { maxSequenceLength, padToMultipleOf, workers }) => {
        const packed = MicroBatch.pack(samples, { maxSequenceLength, padToMultipleOf, workers })
        expect(new Set(packed.microBatches.map((part) => part.length)).size).toBe(1)
        const batches = packed.microBatches.flat()
        const real = batches.filter((batch) => !batch.dummy)
        const kept = samples
          .map((s) => TrainingSample.truncate(s, maxSequenceLength))
          .filter((s, i) => s === samples[i] || TrainingSample.hasMembers(s))
        const tokens = real.flatMap((batch) => batch.samples.flatMap((s) => [...s.tokenIds]))
        expect(tokens.sort((a, b) => a - b)).toEqual(kept.flatMap((s) => [...s.tokenIds]).sort((a, b) => a - b))
        for (const batch of batches) {
          const unpadded = sum(batch.samples.map((s) => s.tokenIds.length))
          expect(unpadded).toBeLessThanOrEqual(maxSequenceLength)
          expect(batch.tokens % padToMultipleOf).toBe(0)
          expect(batch.tokens - unpadded).toBeLessThan(padToMultipleOf)
          expect(sum(batch.sequenceLengths)).toBe(batch.tokens)
          for (const name of TrainingSample.streamNames) expect(batch[name]?.length ?? batch.tokens).toBe(batch.tokens)
          let at = 0
          for (const s of batch.samples) {
            expect([...batch.tokenIds.subarray(at, at + s.tokenIds.length)]).toEqual([...s.tokenIds])
            expect(batch.positionIds[at]).toBe(0)
            at += s.tokenIds.length
          }
          if (batch.dummy) expect(MicroBatch.counts([batch])).toEqual({ rl: 0, ce: 0, refKl: 0 })
        }
        // Counts do not depend on how samples are packed.
        const alone = MicroBatch.pack(samples, { maxSequenceLength, workers: 1 })
        expect(packed.counts).toEqual(alone.counts)
        expect(packed.tokens).toBe(alone.tokens)
      }),
      { numRuns: 80 }
    )
  })

  it("is the same for the same samples", () => {
    FastCheck.assert(
      FastCheck.property(someSamples, options, (samples, packOptions) => {
        expect(MicroBatch.pack(samples, packOptions)).toEqual(MicroBatch.pack(samples, packOptions))
      }),
      { numRuns: 10 }
    )
  })
})

describe("streams", () => {
  it("pads every stream, and the padding belongs to the last sequence", () => {
    const ceWeights = Float32Array.of(0, 0, 1, 1, 1)
    const batch = MicroBatch.pack([sample(0, 5, { ceWeights })], { maxSequenceLength: 8, padToMultipleOf: 4 })
      .microBatches[0]![0]!
    expect([...batch.tokenIds]).toEqual([1000, 1001, 1002, 1003, 1004, 1, 1, 1])
    expect([...batch.positionIds]).toEqual([0, 1, 2, 3, 4, 0, 1, 2])
    expect([...batch.sequenceLengths]).toEqual([8])
    expect([...batch.ceWeights!]).toEqual([0, 0, 1, 1, 1, 0, 0, 0])
    expect(batch.rlWeights).toBeUndefined()
    expect(batch.temperatures[7]).toBe(1)
  })

  it("fills what a sample lacks: 1 for rl, 0 for the others, 0 for all in padding", () => {
    const a = sample(0, 6, {
      ceWeights: Float32Array.of(0, 0, 0, 1, 1, 1),
      rlWeights: full(6, 0),
      referenceLogprobs: full(6, -1.5)
    })
    const b = sample(1, 4, { temperatures: full(4, 1.5) })
    for (const samples of [
      [a, b],
      [b, a]
    ]) {
      const batch = MicroBatch.pack(samples, { maxSequenceLength: 12, padToMultipleOf: 4 }).microBatches[0]![0]!
      expect([...batch.rlWeights!]).toEqual([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0])
      expect([...batch.ceWeights!]).toEqual([0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0])
      expect([...batch.referenceLogprobs!]).toEqual([...full(6, -1.5), 0, 0, 0, 0, 0, 0])
      expect([...batch.temperatures.subarray(6)]).toEqual([1.5, 1.5, 1.5, 1.5, 1, 1])
      expect([...batch.sequenceLengths]).toEqual([6, 6])
    }
  })

  it("PACK-04: every stream of a pack is as long as its tokens, and a sample with a short stream is refused", () => {
    const samples = [4, 3, 2].map((length, index) => sample(index, length))
    const weighted = samples.map((one) => ({
      ...one,
      logprobs: Float32Array.from(one.tokenIds, (id) => -id),
      referenceLogprobs: full(one.mask.length, -1),
      rlWeights: full(one.mask.length, 0.5),
      ceWeights: full(one.mask.length, 0.25),
      refKlWeights: full(one.mask.length, 1)
    }))
    const batch = MicroBatch.pack(weighted, { maxSequenceLength: 9 }).microBatches[0]![0]!
    for (const name of TrainingSample.streamNames) expect(batch[name]!.length, name).toBe(9)
    expect([...batch.logprobs]).toEqual(Array.from(batch.tokenIds, (id) => -id))
    const short = sample(0, 4, { logprobs: full(3, -1) })
    expect(() => MicroBatch.pack([short], { maxSequenceLength: 9 })).toThrow("stream logprobs: 3 entries for 4 tokens")
  })

  it("PACK-05: a sample that the cut leaves without a trainable token is dropped and counted", () => {
    const prompt = sample(0, 16, { mask: Uint8Array.from({ length: 16 }, (_, i) => (i >= 12 ? 1 : 0)) })
    const packed = MicroBatch.pack([prompt, sample(1, 6)], { maxSequenceLength: 12 })
    expect(packed).toMatchObject({ truncated: 1, dropped: 1, tokens: 6 })
    expect(MicroBatch.pack([prompt], { maxSequenceLength: 12, workers: 2 })).toMatchObject({
      microBatches: [[], []],
      counts: { rl: 0, ce: 0, refKl: 0 },
      dropped: 1
    })
  })

  it("refuses rl members without advantages", () => {
    expect(() => MicroBatch.pack([sample(0, 4, { advantages: undefined })], { maxSequenceLength: 9 })).toThrow(
      "rollout 0 of source s, stream advantages"
    )
  })

  it("never counts the first token of a sequence", () => {
    const ones = { mask: new Uint8Array(3).fill(1), ceWeights: full(3, 1) }
    const packed = MicroBatch.pack([sample(0, 3, ones), sample(1, 3, ones)], { maxSequenceLength: 6 })
    expect(packed.counts).toEqual({ rl: 4, ce: 4, refKl: 0 })
  })
})
