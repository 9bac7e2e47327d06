/** What a hook of plain JavaScript returns need not be what its type says. */
import * as Predicate from "effect/Predicate"
import type * as Credit from "../Credit.ts"
import { inWords } from "./inWords.ts"

const streams: ReadonlyArray<unknown> = [
  "advantages",
  "referenceLogprobs",
  "rl",
  "ce",
  "refKl"
] satisfies ReadonlyArray<Credit.Stream>

const isClaim = (claim: Partial<Credit.Claim> | null | undefined): boolean =>
  (typeof claim?.values === "number" || claim?.values instanceof Float32Array) &&
  streams.includes(claim.stream) &&
  (claim.over === "sampled" || Number.isInteger(claim.over))

const wrongCount = (counts: unknown): string | undefined => {
  if (counts === undefined) return undefined
  if (!Predicate.isRecord(counts)) return `its counts are ${inWords(counts)}; they must be numbers by name`
  const wrong = Object.entries(counts).find(([, count]) => !Number.isFinite(count))
  return wrong === undefined ? undefined : `its count "${wrong[0]}" is ${inWords(wrong[1])}; it must be a finite number`
}

/** Why a value is no credit; undefined when it is one. A loop sees the holes of a list, which `every` skips. */
export const notCredit = (value: unknown): string | undefined => {
  const strange = "what it returned is no credit; make it with Credit.uniform, Credit.perTurn, …"
  if (!Predicate.hasProperty(value, "claims") || !Array.isArray(value.claims)) return strange
  for (const claim of value.claims) if (!isClaim(claim)) return strange
  return wrongCount((value as Partial<Credit.Credit>).counts)
}

/** Why a value is no list of one credit for each of `count` rollouts; undefined when it is one. */
export const notCredits = (value: unknown, count: number): string | undefined => {
  if (!Array.isArray(value)) return "what it returned is no list of credits, one for each rollout"
  for (const [index, credit] of value.entries()) {
    const wrong = notCredit(credit)
    if (wrong !== undefined) return `number ${index} of the credits: ${wrong}`
  }
  return value.length === count ? undefined : `${value.length} credits for ${count} rollouts`
}
