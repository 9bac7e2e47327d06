/** Rollouts made by hand, the same on every call: for tests of algorithms and of everything after them. */
import { type Absent, absent, type Planned, type Reason, type Rollout } from "../Rollout.ts"
import { conversation, node } from "./traces.ts"

/** A plan of one rollout alone, of seat "policy" and source "mock". @category constructors */
export const planned = (parts: Partial<Planned> = {}): Planned => ({
  id: "r0",
  sequence: 0,
  source: "mock",
  example: "e0",
  group: { id: "g0", size: 1 },
  episode: { id: parts.id ?? "r0", size: 1 },
  seat: "policy",
  policyVersion: 0,
  labels: {},
  ...parts
})

/** A rollout of one turn, two prompt tokens and two sampled, with reward 0. @category constructors */
export const rollout = (parts: Partial<Omit<Rollout, "_tag">> = {}): Rollout => ({
  ...planned(parts),
  _tag: "Rollout",
  trace: conversation(node("user", [1, 2]), node("assistant", [3, 4])),
  info: {},
  temperature: 1,
  reward: 0,
  rewards: {},
  metrics: {},
  stopReason: "done",
  ...parts
})

/** One rollout of an example for each reward, in the order of dispatch. @category constructors */
export const group = (
  rewards: ReadonlyArray<number>,
  parts: Partial<Omit<Rollout, "_tag" | "group">> & { readonly group?: string | undefined } = {}
): ReadonlyArray<Rollout> => {
  const { group: id = "g0", sequence = 0, ...rest } = parts
  return rewards.map((reward, i) =>
    rollout({
      ...rest,
      id: `${id}/${i}`,
      example: id,
      sequence: sequence + i,
      group: { id, size: rewards.length },
      reward
    })
  )
}

/** What each seat of an episode earned; a seat that is taken several times has several rewards. @category model */
export type SeatRewards = Readonly<Record<string, number | ReadonlyArray<number>>>

/**
 * One group of episodes with several seats, as environments of several agents plan them: every rollout is of one seat of
 * one episode, in the order in which seats and rewards are given.
 *
 * @category constructors
 */
export const episodes = (
  rewards: ReadonlyArray<SeatRewards>,
  parts: Partial<Omit<Rollout, "_tag" | "group" | "episode" | "seat">> & { readonly group?: string | undefined } = {}
): ReadonlyArray<Rollout> => {
  const { group: id = "g0", sequence = 0, ...rest } = parts
  const seats = rewards.map((episode) =>
    Object.entries(episode).flatMap(([seat, earned]) =>
      (typeof earned === "number" ? [earned] : earned).map((reward) => ({ seat, reward }))
    )
  )
  const size = seats.flat().length
  let next = 0
  return seats.flatMap((members, e) =>
    members.map(({ reward, seat }) => {
      const i = next++
      const episode = { id: `${id}/e${e}`, size: members.length }
      return rollout({
        ...rest,
        id: `${id}/${i}`,
        example: id,
        sequence: sequence + i,
        group: { id, size },
        episode,
        seat,
        reward
      })
    })
  )
}

/** Every reason for which a planned rollout does not count. @category constructors */
export const reasons: ReadonlyArray<Reason> = [
  { _tag: "Cancelled", why: "overload" },
  { _tag: "Failed", blame: "provider", message: "connection refused" },
  { _tag: "NoReward", reward: Number.NaN },
  { _tag: "NothingTrainable", stopReason: "prompt_too_long" },
  { _tag: "Late", set: "g0" },
  { _tag: "Incomplete", set: "g0", missing: 1 },
  { _tag: "NotAdmitted", gate: "difficulty" }
]

/** The same rollouts, of which number `i` did not come to count for reason `at[i]`. @category constructors */
export const without = (
  rollouts: ReadonlyArray<Rollout>,
  at: Readonly<Record<number, Reason>>
): ReadonlyArray<Rollout | Absent> =>
  rollouts.map((rollout, i) => (at[i] === undefined ? rollout : absent(rollout, at[i])))

/** How many groups, and of what size, `many` interleaves. @category constructors */
export interface ManyOptions {
  readonly groupSize?: number | undefined
  /** groups that are open at a time: their members end in turns */
  readonly open?: number | undefined
  readonly tokens?: number | undefined
  readonly source?: string | undefined
}

/** `total` rollouts in groups that end interleaved, one after the other as they are asked for. @category constructors */
export function* many(total: number, options: ManyOptions = {}): Generator<Rollout> {
  const { groupSize = 8, open = 64, source = "mock", tokens = 8 } = options
  const ids = Array.from({ length: tokens }, (_, i) => i)
  const prompt = tokens >> 2
  const trace = conversation(node("user", ids.slice(0, prompt)), node("assistant", ids.slice(prompt)))
  const one = rollout({ source, trace })
  const groups = Math.ceil(total / groupSize)
  let sequence = 0
  for (let block = 0; block < groups; block += open) {
    for (let member = 0; member < groupSize; member++) {
      for (let g = block; g < Math.min(groups, block + open) && sequence < total; g++) {
        const example = `${source}/g${g}`
        const id = `${example}/${member}`
        const reward = (member * 7 + g) % 3
        const [group, episode] = [
          { id: example, size: groupSize },
          { id, size: 1 }
        ]
        yield { ...one, id, sequence: sequence++, example, group, episode, reward }
      }
    }
  }
}
