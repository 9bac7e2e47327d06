import * as FastCheck from "effect/FastCheck"
import { expect, it } from "vitest"
import * as MergeTable from "../../src/tokenizer/MergeTable.ts"
import { mergeByHeap, mergeByScan } from "../../src/tokenizer/merge.ts"

const makeTable = (rows: ReadonlyArray<readonly [number, number, number]>) =>
  MergeTable.make(
    ...([0, 1, 2].map((column) => Int32Array.from(rows, (row) => row[column]!)) as [Int32Array, Int32Array, Int32Array])
  )

const run = (procedure: typeof mergeByScan, ids: ReadonlyArray<number>, table: MergeTable.MergeTable) => {
  const buffer = Int32Array.from(ids)
  return [...buffer.subarray(0, procedure(buffer, buffer.length, table))]
}

it.each([mergeByScan, mergeByHeap])("%o: the lowest rank merges first, and of equals the leftmost", (procedure) => {
  const table = makeTable([
    [1, 2, 10],
    [0, 1, 11],
    [10, 10, 12]
  ])
  expect(run(procedure, [0, 1, 2, 1, 2], table)).toEqual([0, 12])
  expect(run(procedure, [0, 1, 0], table)).toEqual([11, 0])
  const pairs = makeTable([[5, 5, 6]])
  expect(run(procedure, [5, 5, 5], pairs)).toEqual([6, 5])
  expect(run(procedure, [], pairs)).toEqual([])
})

it("scanning and the heap give the same ids on any table and input", () => {
  const id = FastCheck.integer({ min: 0, max: 5 })
  // results are new ids, as in a vocabulary: ranks 0… become ids 6…
  const rows = FastCheck.array(
    FastCheck.tuple(FastCheck.integer({ min: 0, max: 12 }), FastCheck.integer({ min: 0, max: 12 })),
    {
      maxLength: 30
    }
  ).map((pairs) => pairs.map(([left, right], rank) => [left, right, 6 + rank] as const))
  FastCheck.assert(
    FastCheck.property(rows, FastCheck.array(id, { maxLength: 120 }), (table, ids) => {
      const merges = makeTable(table)
      expect(run(mergeByHeap, ids, merges)).toEqual(run(mergeByScan, ids, merges))
    }),
    { numRuns: 500 }
  )
})
