/** What an environment's options cannot be, whatever their types say: plain JavaScript has none. */
import { inWords } from "./inWords.ts"

const isTime = (ms: unknown) => ms === undefined || (typeof ms === "number" && ms > 0)

interface Given {
  readonly maxTurns?: unknown
  readonly reward?: unknown
  readonly scoringTimeoutMs?: unknown
  readonly stops?: unknown
  readonly tasks?: unknown
  readonly taskset?: unknown
  readonly timeoutMs?: unknown
}

/** The first thing that is missing or wrong, in words. */
export const environmentFault = (options: Given): string | undefined => {
  const { maxTurns, reward, scoringTimeoutMs, stops, tasks, taskset, timeoutMs } = options
  if (tasks === undefined && taskset === undefined) return "it has no tasks; give `tasks`, a list, or a `taskset`"
  if (tasks !== undefined && !Array.isArray(tasks)) return `its tasks are ${inWords(tasks)}; they must be a list`
  if (typeof reward !== "function" && (typeof reward !== "object" || reward === null)) {
    return "it has no reward; give `reward`, a function of task and answer that returns a number"
  }
  const wrong = Object.entries(stops ?? {}).find(([, condition]) => typeof condition !== "function")
  if (wrong !== undefined) {
    return `its stop condition ${wrong[0]} is ${inWords(wrong[1])}; it must be a function of task and moment that returns true or false`
  }
  if (!isTime(timeoutMs)) return `timeoutMs is ${inWords(timeoutMs)}; it must be a number of milliseconds above 0`
  if (!isTime(scoringTimeoutMs)) {
    return `scoringTimeoutMs is ${inWords(scoringTimeoutMs)}; it must be a number of milliseconds above 0`
  }
  if (maxTurns !== undefined && !(Number.isInteger(maxTurns) && Number(maxTurns) >= 1)) {
    return `maxTurns is ${inWords(maxTurns)}; it must be a whole number, at least 1`
  }
  return undefined
}
