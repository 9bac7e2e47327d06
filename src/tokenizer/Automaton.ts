/**
 * Matches a pattern in one pass over the text, finding what a backtracking matcher finds. States of a deterministic
 * automaton are made when a text first needs them (Thompson 1968). Places from which matching has failed are remembered
 * (Reps 1998), so that no pattern makes the time grow faster than the text.
 */
import type { Program } from "./Program.ts"

/** @category model */
export interface Automaton {
  /** end of the match that begins at `from`, −1 for none; `to` is the end of the text, in UTF-16 code units */
  readonly match: (units: Uint16Array, from: number, to: number) => number
  /** forgets the places of failure; for use before another text */
  readonly forget: () => void
}

const noState = 1
const atEnd = 1
const mostStates = 1 << 13
/** one place in so many is remembered */
const stride = 64
const mostFailures = 1 << 21

/** @category constructors */
export const make = ({ instructions, sets, start }: Program): Automaton => {
  // a class of characters is what the pattern cannot tell apart; 0 is not yet known, 1 the end of the text
  const classes = new Uint16Array(0x110000)
  const members: Array<ReadonlyArray<boolean>> = [[], sets.map(() => false)]
  const classOfMembers = new Map<string, number>()
  const classify = (point: number): number => {
    const char = sets.map((set) => set.has(point))
    const key = char.map(Number).join("")
    const found = classOfMembers.get(key) ?? members.push(char) - 1
    classOfMembers.set(key, found)
    if (found >= width) widen()
    classes[point] = found
    return found
  }

  // a state is the list of instructions that may go on, by preference; moves hold the next state and whether a match ends
  let width = 32
  let states: Array<ReadonlyArray<number>> = []
  let stateOf = new Map<string, number>()
  let moves = new Int32Array(0)
  const failures = new Set<number>()
  let horizon = -1

  const forget = () => {
    if (horizon < 0) return
    failures.clear()
    horizon = -1
  }
  const widen = () => {
    const wider = new Int32Array((moves.length / width) * width * 2)
    for (let state = 0; state < states.length; state++) {
      wider.set(moves.subarray(state * width, (state + 1) * width), state * width * 2)
    }
    moves = wider
    width *= 2
  }
  const intern = (list: ReadonlyArray<number>): number => {
    const key = list.join(",")
    const known = stateOf.get(key)
    if (known !== undefined) return known
    if (states.length === mostStates) begin()
    const state = states.push(list) - 1
    stateOf.set(key, state)
    if (states.length * width > moves.length) {
      const longer = new Int32Array(Math.max(16 * width, moves.length * 2))
      longer.set(moves)
      moves = longer
    }
    return state
  }
  const begin = () => {
    states = [[]]
    stateOf = new Map()
    moves = new Int32Array(0)
    forget()
    intern([])
    intern([start])
  }
  const first = 2

  const move = (state: number, char: number): number => {
    const next: Array<number> = []
    const seen = new Set<number>()
    const pending = states[state]!.toReversed()
    let ended = 0
    for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
      if (seen.has(at)) continue
      seen.add(at)
      const instruction = instructions[at]!
      if (instruction.kind === "take") {
        if (members[char]![instruction.set] && !next.includes(instruction.to)) next.push(instruction.to)
      } else if (instruction.kind === "fork") pending.push(instruction.otherwise, instruction.to)
      else if (instruction.kind === "next") {
        if (char === atEnd ? instruction.end : members[char]![instruction.set]) pending.push(instruction.to)
      } else {
        // whatever is left is less preferred than this match
        ended = 1
        break
      }
    }
    const made = states.length
    const found = (intern(next) << 1) | ended
    // when the states were begun anew, `state` is no longer what it was
    if (states.length >= made) moves[state * width + char] = found
    return found
  }

  const remember = (units: Uint16Array, from: number, end: number, to: number) => {
    if (failures.size > mostFailures) forget()
    let state = first
    for (let at = from; at < to; ) {
      if (at > end && at % stride === 0) {
        failures.add(at * mostStates + state)
        horizon = Math.max(horizon, at)
      }
      const unit = units[at]!
      const pair = (unit & 0xfc00) === 0xd800 && at + 1 < to
      const point = pair ? ((unit & 0x3ff) << 10) + (units[at + 1]! & 0x3ff) + 0x10000 : unit
      const known = moves[state * width + classes[point]!]!
      if (known >> 1 <= noState) return
      state = known >> 1
      at += pair ? 2 : 1
    }
  }

  begin()
  return {
    forget,
    match: (units, from, to) => {
      let state = first
      let end = -1
      let at = from
      for (;;) {
        let char = atEnd
        let taken = 1
        if (at < to) {
          let point = units[at]!
          if ((point & 0xfc00) === 0xd800 && at + 1 < to) {
            point = ((point & 0x3ff) << 10) + (units[at + 1]! & 0x3ff) + 0x10000
            taken = 2
          }
          char = classes[point]!
          if (char === 0) char = classify(point)
        }
        let found = moves[state * width + char]!
        if (found === 0) found = move(state, char)
        if ((found & 1) === 1) end = at
        state = found >> 1
        if (state === noState) break
        at += taken
        if (at <= horizon && at % stride === 0 && failures.has(at * mostStates + state)) break
      }
      if (at - Math.max(end, from) > 4 * stride) remember(units, from, end, to)
      return end
    }
  }
}
