import { readFileSync } from "node:fs"

/** Whether a process still runs; one that has ended and that nobody has asked about does not. */
export const isRunning = (pid: string): boolean => {
  try {
    return !/^\S+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}
