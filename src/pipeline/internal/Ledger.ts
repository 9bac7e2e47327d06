/**
 * The bookkeeping of dependent sets, without fibers: who has ended, which sets are open, whose credit is final.
 * Invariant: an entry lives until every member it was planned with has ended, and no longer, so that a late member can
 * neither reopen a set nor leak one; and every member comes out exactly once.
 */
import * as Either from "effect/Either"
import * as Exit from "effect/Exit"
import * as Credit from "../../Credit.ts"
import type { Membership, Progress, Rule, Scored } from "../../DependentSet.ts"
import * as DependentSet from "../../DependentSet.ts"
import { type Absent, absent, type Reason, type Rollout } from "../../Rollout.ts"
import { failed } from "./failure.ts"

/** A set on its way. */
export interface Entry extends Membership {
  readonly members: Array<Rollout>
  absent: number
  late: number
  /** as it was when the set opened; undefined while it waits */
  opened: Progress | undefined
  /** the input ended before the members did */
  cut: boolean
  /** why the rule could not say whether the set opens */
  broken: DependentSet.RuleError | undefined
  /** a fiber waits for it, or is about to */
  awaited: boolean
  wake: (() => void) | undefined
}

/** What a chunk of ended rollouts changes. */
export interface Booked {
  /** sets seen for the first time that wait for more members */
  readonly waiting: ReadonlyArray<Entry>
  /** sets that opened, in the order in which they did */
  readonly opened: ReadonlyArray<Entry>
  /** items that wait for nothing */
  readonly final: Array<Scored | Absent>
}

interface Pending {
  readonly scored: Scored
  /** keys of its sets in the order in which the rule names them, and the credit of each, whichever opens first */
  readonly keys: ReadonlyArray<string>
  readonly credits: Array<Credit.Credit>
  sets: number
  failed: Reason | undefined
}

export interface Ledger {
  readonly end: (chunk: Iterable<Scored | Absent>) => Booked
  /** The input has ended: opens the sets that can never be whole, as cut. */
  readonly close: () => void
  /** Books the credits of an open set; returns the members whose credit is now final. */
  readonly settle: (
    entry: Entry,
    credits: Exit.Exit<ReadonlyArray<Credit.Credit>, unknown>
  ) => ReadonlyArray<Scored | Absent>
  readonly clear: () => void
  readonly sets: () => ReadonlyArray<Progress>
  readonly pending: () => number
}

const progress = ({ absent, key, members, size }: Entry): Progress => ({ key, size, arrived: members.length, absent })

const withCredits = ({ credits, scored }: Pending): Scored => {
  let credit = scored.credit
  for (const one of credits) credit = Credit.combine(credit, one)
  return { _tag: "Scored", rollout: scored.rollout, credit }
}

export const make = (rule: Rule): Ledger => {
  const entries = new Map<string, Entry>()
  const pending = new Map<string, Pending>()

  const find = ({ key, size }: Membership, seen: Array<Entry>): Entry => {
    const known = entries.get(key)
    if (known !== undefined) return known
    const entry: Entry = {
      key,
      size,
      members: [],
      absent: 0,
      late: 0,
      opened: undefined,
      cut: false,
      broken: undefined,
      awaited: false,
      wake: undefined
    }
    entries.set(key, entry)
    seen.push(entry)
    return entry
  }

  /** A set whose rule breaks opens at once: its members are absent, and nobody waits for it for ever. */
  const opensEarly = (entry: Entry): boolean => {
    if (rule.opens === undefined) return false
    const opens = DependentSet.opensEarly(rule, progress(entry))
    if (Either.isLeft(opens)) entry.broken = opens.left
    return Either.getOrElse(opens, () => true)
  }

  const endOne = (item: Scored | Absent, seen: Array<Entry>, opened: Array<Entry>, final: Array<Scored | Absent>) => {
    const planned = item._tag === "Absent" ? item.planned : item.rollout
    if (pending.has(planned.id)) throw new Error(`rollout ${planned.id} ended twice: its credit would count twice`)
    const named = DependentSet.membershipsOf(rule, planned)
    if (Either.isLeft(named)) {
      final.push(item._tag === "Absent" ? item : failed(planned, named.left))
      return
    }
    const memberships = named.right
    const keys: Array<string> = []
    for (const membership of memberships) {
      const entry = find(membership, seen)
      if (item._tag === "Absent") entry.absent++
      else if (entry.opened !== undefined) entry.late++
      else {
        entry.members.push(item.rollout)
        keys.push(entry.key)
      }
      const whole = entry.members.length + entry.absent + entry.late >= entry.size
      if (whole) entries.delete(entry.key)
      if (entry.opened === undefined && (whole || opensEarly(entry))) {
        entry.opened = progress(entry)
        opened.push(entry)
      }
    }
    if (item._tag === "Absent" || memberships.length === 0) final.push(item)
    else if (keys.length === 0) final.push(absent(planned, { _tag: "Late", set: memberships[0]!.key }))
    else {
      const credits = keys.map(() => Credit.empty)
      pending.set(planned.id, { scored: item, keys, credits, sets: keys.length, failed: undefined })
    }
  }

  return {
    end: (chunk) => {
      const seen: Array<Entry> = []
      const opened: Array<Entry> = []
      const final: Array<Scored | Absent> = []
      for (const item of chunk) endOne(item, seen, opened, final)
      const waiting = seen.filter((entry) => entry.opened === undefined)
      for (const entry of waiting) entry.awaited = true
      return { waiting, opened, final }
    },
    close: () => {
      for (const entry of entries.values()) {
        if (entry.opened !== undefined) continue
        entry.cut = true
        entry.opened = progress(entry)
        entry.wake?.()
      }
      entries.clear()
    },
    settle: (entry, credits) => {
      const final: Array<Scored | Absent> = []
      entry.members.forEach((rollout, i) => {
        const mine = pending.get(rollout.id)!
        if (entry.cut) {
          const missing = entry.size - entry.members.length - entry.absent
          mine.failed ??= { _tag: "Incomplete", set: entry.key, missing }
        } else if (entry.broken !== undefined) {
          mine.failed ??= failed(rollout, entry.broken).reason
        } else if (Exit.isSuccess(credits)) mine.credits[mine.keys.indexOf(entry.key)] = credits.value[i]!
        else mine.failed ??= failed(rollout, credits.cause).reason
        mine.sets--
        if (mine.sets > 0) return
        pending.delete(rollout.id)
        final.push(mine.failed ? absent(rollout, mine.failed) : withCredits(mine))
      })
      return final
    },
    clear: () => {
      entries.clear()
      pending.clear()
    },
    sets: () => Array.from(entries.values(), progress),
    pending: () => pending.size
  }
}
