/** A trace as JSON, and back: text of all nodes first, then their tokens as base64 columns. */
import * as Either from "effect/Either"
import * as ParseResult from "effect/ParseResult"
import type * as Wire from "../internal/RolloutWire.ts"
import type { Node, Trace } from "./model.ts"

/** The keys of a trace in a line of JSON, for the schemas to encode. @category codec */
export const graphParts = ({ calls, nodes, stop }: Trace) => ({
  ...(stop === undefined ? {} : { stop }),
  messages: nodes.map(({ abandoned, message, parent, sampled }) => ({
    ...(parent === undefined ? {} : { parent }),
    sampled,
    ...(abandoned === true ? { abandoned } : {}),
    message
  })),
  ...(calls === undefined ? {} : { calls }),
  tokens: nodes
})

const nodesOf = (
  texts: ReadonlyArray<typeof Wire.NodeText.Type>,
  tokens: ReadonlyArray<typeof Wire.NodeTokens.Type>
): Either.Either<ReadonlyArray<Node>, string> => {
  if (texts.length !== tokens.length) return Either.left(`${texts.length} messages and the tokens of ${tokens.length}`)
  const nodes: Array<Node> = []
  for (const [index, { abandoned, message, parent, sampled }] of texts.entries()) {
    const { isContent, logprobs, mask, tokenIds } = tokens[index]!
    if (parent !== undefined && parent >= index) return Either.left(`message ${index} has parent ${parent}`)
    if (mask.length !== tokenIds.length || isContent.length !== tokenIds.length) {
      return Either.left(
        `message ${index}: ${tokenIds.length} ids, ${mask.length} masks, ${isContent.length} content flags`
      )
    }
    const count = mask.reduce((sum, bit) => sum + (bit === 1 ? 1 : 0), 0)
    if (logprobs.length !== count) {
      return Either.left(`message ${index}: ${logprobs.length} log-probabilities for ${count} sampled tokens`)
    }
    const node = { parent, message, sampled, tokenIds, mask, isContent, logprobs }
    nodes.push(abandoned === true ? { ...node, abandoned } : node)
  }
  return Either.right(nodes)
}

/** The trace of what a line held; fails with what contradicts itself in it, and where. @category codec */
export const graphOf = (parts: {
  readonly messages: ReadonlyArray<typeof Wire.NodeText.Type>
  readonly tokens: ReadonlyArray<typeof Wire.NodeTokens.Type>
  readonly calls?: ReadonlyArray<typeof Wire.Call.Type> | undefined
  readonly stop?: typeof Wire.Stop.Type | undefined
}): Either.Either<Trace, string> =>
  Either.flatMap(nodesOf(parts.messages, parts.tokens), (nodes) => {
    const stray = parts.calls?.find(({ node }) => node >= nodes.length)
    if (stray !== undefined) return Either.left(`a call has answer ${stray.node} of ${nodes.length} messages`)
    return Either.right({
      nodes,
      ...(parts.calls === undefined ? {} : { calls: parts.calls }),
      ...(parts.stop === undefined ? {} : { stop: parts.stop })
    })
  })

/** The first place that is wrong. @category codec */
export const placeOf = (error: ParseResult.ParseError): string => {
  const issue = ParseResult.ArrayFormatter.formatErrorSync(error)[0]!
  return issue.path.length === 0 ? "it is no object" : `${issue.path.map(String).join(".")}: ${issue.message}`
}
