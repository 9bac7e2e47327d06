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

/** Why a claim does not fit the trace, or cannot be trained on; undefined when it does. */
const problemOf = (nodes: ReadonlyArray<Node>, { over, values }: Claim): string | undefined => {
  const broken = firstNotFinite(values)
  if (broken !== undefined) {
    return Number.isFinite(broken) ? `a value is ${broken}, beyond float32` : `a value is ${broken}`
  }
  if (over === "sampled") {
    if (typeof values === "number") return undefined
    const sampled = nodes.reduce((sum, node) => sum + node.logprobs.length, 0)
    return values.length === sampled ? undefined : `${values.length} values for ${sampled} sampled tokens`
  }
  const node = nodes[over]
  if (node === undefined) return `there is no message ${over}; the trace has ${nodes.length}`
  return typeof values === "number" || values.length === node.tokenIds.length
    ? undefined
    : `${values.length} values for the ${node.tokenIds.length} tokens of message ${over}`
}

/** Which tokens of a node a claim speaks of. */
const whereOf = ({ over, stream, values }: Claim, node: Node): Uint8Array | undefined => {
  if (over === "sampled") return node.mask
  if (typeof values === "number") return node.sampled ? node.mask : node.isContent
  return stream === "advantages" ? node.mask : undefined
}

/** Where two pieces of one stream say two things. */
const conflictOf = (earlier: Piece, piece: Piece, tokens: number) => {
  for (let token = 0; token < tokens; token++) {
    const a = valueAt(earlier, token)
    const b = valueAt(piece, token)
    if (a === undefined || b === undefined || a === b) continue
    return { token, writers: [earlier.writer || "a claim", piece.writer || "a claim"], values: [a, b] } as const
  }
  return undefined
}

/** What is said of each node, by index. */
export const layOut = (
  { id, source, trace }: Pick<Rollout, "id" | "source" | "trace">,
  credit: Credit
): Either.Either<ReadonlyArray<ReadonlyArray<Piece>>, CreditConflict | InvalidSample> => {
  const { nodes } = trace
  const byNode = nodes.map((): Array<Piece> => [])
  for (const claim of credit.claims) {
    const { over, stream, values, writer } = claim
    const problem = problemOf(nodes, claim)
    if (problem !== undefined) {
      const reason = `${writer || "a claim"}: ${problem}`
      return Either.left(new InvalidSample({ rollout: id, source, stream, reason }))
    }
    const parts = over === "sampled" && typeof values !== "number" ? spread(nodes, values) : undefined
    const [first, last] = over === "sampled" ? [0, nodes.length - 1] : [over, over]
    for (let index = first; index <= last; index++) {
      const node = nodes[index]!
      if (over === "sampled" && !node.sampled) continue
      const piece: Piece = { stream, values: parts?.[index] ?? values, where: whereOf(claim, node), writer }
      const pieces = byNode[index]!
      for (const earlier of pieces) {
        const conflict = earlier.stream === stream ? conflictOf(earlier, piece, node.tokenIds.length) : undefined
        if (conflict !== undefined)
          return Either.left(new CreditConflict({ rollout: id, stream, node: index, ...conflict }))
      }
      pieces.push(piece)
    }
  }
  return Either.right(byNode)
}

/** Writes what a piece says into a stream that starts at `at`. */
export const write = ({ values, where }: Piece, into: Float32Array, at: number, length: number): void => {
  if (typeof values === "number") {
    if (where === undefined) into.fill(values, at, at + length)
    else for (let token = 0; token < length; token++) if (where[token] === 1) into[at + token] = values
  } else if (where === undefined) into.set(values, at)
  else for (let token = 0; token < length; token++) if (where[token] === 1) into[at + token] = values[token]!
}
