/**
 * The tokens of a scored rollout's branches with what becomes of each. What is trained is read from the samples that
 * training makes; here it is only put into words.
 */
import * as Either from "effect/Either"
import type { Credit, Stream } from "../../Credit.ts"
import { layOut, type Piece, speaks } from "../../internal/claims.ts"
import type { Rollout } from "../../Rollout.ts"
import type { Decoder } from "../../Tokenizer.ts"
import * as Trace from "../../Trace.ts"
import * as TrainingSample from "../../TrainingSample.ts"
import type { ExplainedBranch, ExplainedToken, Term } from "../Explanation.ts"

/** What is known beside the rollout. */
export interface Options {
  readonly decoder?: (() => Decoder) | undefined
  readonly maxSequenceLength?: number | undefined
}

/** One token, and where it is. */
interface Place {
  readonly rollout: Rollout
  readonly branches: ReadonlyArray<Trace.Branch>
  readonly branch: number
  readonly depth: number
  /** index of its message */
  readonly message: number
  /** in its message */
  readonly token: number
  /** in its branch */
  readonly position: number
}

type Fate = Pick<ExplainedToken, "terms" | "reason">

/** Every token of every branch, with the fate that `fateAt` says. Tokens of one fate share it. */
const walk = (
  rollout: Rollout,
  { decoder }: Options,
  fateAt: (place: Place) => Fate
): ReadonlyArray<ExplainedBranch> => {
  const branches = Trace.branches(rollout.trace)
  return branches.map(({ path }, branch) => {
    const read = decoder?.()
    const tokens: Array<ExplainedToken> = []
    for (const [depth, message] of path.entries()) {
      const node = rollout.trace.nodes[message]!
      let sampled = 0
      for (const [token, tokenId] of node.tokenIds.entries()) {
        const isSampled = node.mask[token] === 1
        const position = tokens.length
        tokens.push({
          position,
          message,
          role: node.message.role,
          tokenId,
          text: read?.push(tokenId),
          sampled: isSampled,
          logprob: isSampled ? node.logprobs[sampled++] : undefined,
          ...fateAt({ rollout, branches, branch, depth, message, token, position })
        })
      }
    }
    // A character that is cut in two reads as U+FFFD, at the last of its tokens.
    const rest = read?.flush() ?? ""
    const last = tokens.at(-1)
    if (rest !== "" && last !== undefined) tokens[tokens.length - 1] = { ...last, text: `${last.text}${rest}` }
    return { branch, tokens }
  })
}

/** A token that no component would train in any case, in words; undefined for one that it would. */
const context = ({ branches, branch, depth, message, rollout, token }: Place): string | undefined => {
  const { nodes } = rollout.trace
  const node = nodes[message]!
  if (node.mask[token] === 1) return undefined
  if (node.isContent[token] !== 1) return "scaffold of the chat format"
  if (node.sampled) return "not sampled by this policy"
  const answered = branches[branch]!.path.slice(0, depth).some((earlier) => nodes[earlier]!.sampled)
  return answered ? `context: a ${node.message.role} message` : "prompt"
}

/** Tokens of a rollout that does not count. */
export const ofAbsent = (rollout: Rollout, why: string, options: Options): ReadonlyArray<ExplainedBranch> => {
  const fates = new Map<string, Fate>()
  return walk(rollout, options, (place) => {
    const reason = context(place) ?? `not trained: the rollout does not count, ${why}`
    const fate = fates.get(reason) ?? { terms: [], reason }
    fates.set(reason, fate)
    return fate
  })
}

/** Who spoke last of a token in a stream. */
const writerOf = (pieces: ReadonlyArray<Piece>, stream: Stream, token: number): string | undefined =>
  pieces.findLast((piece) => piece.stream === stream && speaks(piece, token))?.writer

const words: Readonly<Record<Term["component"], string>> = {
  rl: "advantage",
  ce: "weight",
  refKl: "reference"
}

/** The branch, before this one, that trains a node of it. */
const trainedIn = ({ branches, branch, message }: Place): number =>
  branches.findIndex(({ path }, index) => index < branch && path.includes(message))

/**
 * Tokens of a rollout that counts. Fails where `TrainingSample.ofBranches` does, which a rollout that went through the
 * pipeline has passed.
 */
export const ofScored = (
  scored: { readonly rollout: Rollout; readonly credit: Credit },
  options: Options
): Either.Either<ReadonlyArray<ExplainedBranch>, TrainingSample.CreditConflict | TrainingSample.InvalidSample> =>
  Either.gen(function* () {
    const { maxSequenceLength = Number.POSITIVE_INFINITY } = options
    const pieces = yield* layOut(scored.rollout, scored.credit)
    const laid = (yield* TrainingSample.ofBranches(scored)).map(({ sample }) => {
      const moving = sample === undefined ? undefined : TrainingSample.moving(sample)
      return { sample, trained: moving === undefined ? undefined : TrainingSample.truncate(moving, maxSequenceLength) }
    })
    const fates = new Map<string, Fate>()
    const shared = (fate: Fate): Fate => {
      const key = JSON.stringify(fate)
      const known = fates.get(key) ?? fate
      fates.set(key, known)
      return known
    }

    const termsAt = (place: Place): ReadonlyArray<Term> => {
      const sample = laid[place.branch]!.trained
      const i = place.position
      if (sample === undefined || i === 0 || i >= sample.tokenIds.length) return []
      const by = (stream: Stream) => writerOf(pieces[place.message]!, stream, place.token) ?? "a claim"
      const terms: Array<Term> = []
      if (TrainingSample.isRl(sample, i)) {
        const weight = sample.rlWeights?.[i] ?? 1
        terms.push({ component: "rl", weight, credit: sample.advantages![i]!, by: by("advantages") })
      }
      if (TrainingSample.isCe(sample, i)) {
        terms.push({ component: "ce", weight: sample.ceWeights![i]!, credit: undefined, by: by("ce") })
      }
      if (TrainingSample.isRefKl(sample, i)) {
        const credit = sample.referenceLogprobs![i]!
        terms.push({ component: "refKl", weight: sample.refKlWeights![i]!, credit, by: by("referenceLogprobs") })
      }
      return terms
    }

    const whyNot = (place: Place): string => {
      const { branches, depth, message, position, token } = place
      const { sample } = laid[place.branch]!
      const said = pieces[message]!
      const weighted = (["ce", "refKl"] as const).some((stream) => writerOf(said, stream, token) !== undefined)
      const plain = context(place)
      if (plain !== undefined && !weighted) return plain
      if (position === 0) return "first token: nothing stands before it"
      if (depth < branches[place.branch]!.shared) return `shared: trained in branch ${trainedIn(place)}`
      if (sample !== undefined && TrainingSample.isRl(sample, position) && sample.advantages![position] === 0) {
        return `advantage exactly 0, from ${writerOf(said, "advantages", token) ?? "a claim"}`
      }
      if (position >= maxSequenceLength) return `cut: only the first ${maxSequenceLength} tokens fit`
      const silenced = writerOf(said, "rl", token)
      return silenced === undefined ? (plain ?? "no component trains it") : `weight 0, from ${silenced}`
    }

    return walk(scored.rollout, options, (place) => {
      const terms = termsAt(place)
      if (terms.length === 0) return shared({ terms, reason: whyNot(place) })
      return shared({ terms, reason: terms.map(({ by, component }) => `${words[component]} from ${by}`).join("; ") })
    })
  })
