/** Lays a credit's claims out node by node: after this, no token has two values in one stream, and every value is finite. */
import * as Either from "effect/Either"
import type { Claim, Credit, Stream } from "../Credit.ts"
import type { Rollout } from "../Rollout.ts"
import type { Node } from "../Trace.ts"
import { CreditConflict, InvalidSample } from "./sampleErrors.ts"

/** What one claim says of one node. */
export interface Piece {
  readonly stream: Stream
  /** one for all, or one per token of the node */
  readonly values: number | Float32Array
  /** 1 on the tokens that it speaks of; undefined is all */
  readonly where: Uint8Array | undefined
  readonly writer: string
}

/** Whether a piece says anything of a token. */
export const speaks = ({ where }: Piece, token: number): boolean => where === undefined || where[token] === 1

/** What a piece says of a token; undefined when it is silent. Float32 is the width in which streams travel. */
const valueAt = (piece: Piece, token: number): number | undefined =>
  speaks(piece, token)
    ? typeof piece.values === "number"
      ? Math.fround(piece.values)
      : piece.values[token]
    : undefined

/** One value per sampled token of the rollout, spread over the tokens of each node. */
const spread = (nodes: ReadonlyArray<Node>, values: Float32Array): ReadonlyArray<Float32Array> => {
  let at = 0
  return nodes.map(({ mask }) => Float32Array.from(mask, (bit) => (bit === 1 ? values[at++]! : 0)))
}

/** As a stream holds it: a number beyond float32 would be infinite there. */
const firstNotFinite = (values: number | Float32Array): number | undefined =>
  typeof values === "number"
    ? Number.isFinite(Math.fround(values))
      ? undefined
      : values
    : values.find((value) => !Number.isFinite(value))

const piecesOf = (
  nodes: ReadonlyArray<Node>,
  claim: Claim
): Either.Either<ReadonlyArray<readonly [number, Piece]>, string> => {
  const { over, stream, values, writer } = claim
  const broken = firstNotFinite(values)
  if (broken !== undefined) {
    return Either.left(Number.isFinite(broken) ? `a value is ${broken}, beyond float32` : `a value is ${broken}`)
  }
  if (over === "sampled") {
    const sampled = nodes.reduce((sum, node) => sum + node.logprobs.length, 0)
    if (typeof values !== "number" && values.length !== sampled) {
      return Either.left(`${values.length} values for ${sampled} sampled tokens`)
    }
    const parts = typeof values === "number" ? undefined : spread(nodes, values)
    const pieces: Array<readonly [number, Piece]> = []
    for (const [index, node] of nodes.entries()) {
      if (node.sampled) pieces.push([index, { stream, values: parts?.[index] ?? values, where: node.mask, writer }])
    }
    return Either.right(pieces)
  }
  const node = nodes[over]
  if (node === undefined) return Either.left(`there is no message ${over}; the trace has ${nodes.length}`)
  if (typeof values === "number") {
    return Either.right([[over, { stream, values, where: node.sampled ? node.mask : node.isContent, writer }]])
  }
  if (values.length !== node.tokenIds.length) {
    return Either.left(`${values.length} values for the ${node.tokenIds.length} tokens of message ${over}`)
  }
  return Either.right([[over, { stream, values, where: stream === "advantages" ? node.mask : undefined, writer }]])
}

/** What is said of each node, by index. */
export const layOut = (
  { id, source, trace }: Pick<Rollout, "id" | "source" | "trace">,
  credit: Credit
): Either.Either<ReadonlyArray<ReadonlyArray<Piece>>, CreditConflict | InvalidSample> => {
  const byNode = trace.nodes.map((): Array<Piece> => [])
  for (const claim of credit.claims) {
    const pieces = piecesOf(trace.nodes, claim)
    if (Either.isLeft(pieces)) {
      const writer = claim.writer === "" ? "a claim" : claim.writer
      return Either.left(
        new InvalidSample({ rollout: id, source, stream: claim.stream, reason: `${writer}: ${pieces.left}` })
      )
    }
    for (const [node, piece] of pieces.right) {
      for (const earlier of byNode[node]!) {
        if (earlier.stream !== piece.stream) continue
        for (let token = 0; token < trace.nodes[node]!.tokenIds.length; token++) {
          const a = valueAt(earlier, token)
          const b = valueAt(piece, token)
          if (a === undefined || b === undefined || a === b) continue
          const { stream } = piece
          const writers = [earlier.writer || "a claim", piece.writer || "a claim"] as const
          return Either.left(new CreditConflict({ rollout: id, stream, node, token, writers, values: [a, b] }))
        }
      }
      byNode[node]!.push(piece)
    }
  }
  return Either.right(byNode)
}

/** Writes what a piece says into a stream that starts at `at`. */
export const write = (piece: Piece, into: Float32Array, at: number, length: number): void => {
  const { values } = piece
  for (let token = 0; token < length; token++) {
    if (speaks(piece, token)) into[at + token] = typeof values === "number" ? values : values[token]!
  }
}
