/** How many processors the process may use: its affinity, held to the quota of its control groups, as containers have one. */
import { readFileSync } from "node:fs"
import * as os from "node:os"
import * as Option from "effect/Option"

/** Undefined where it cannot be read: not on Linux, or without this kind of control groups. */
const read = (path: string): string | undefined =>
  Option.getOrUndefined(Option.liftThrowable(() => readFileSync(path, "utf8"))())

/** Processors' worth of time in a period; undefined where there is no limit. */
const share = (quota: string | undefined, period: string | undefined): number | undefined => {
  const [used, of] = [Number(quota), Number(period)]
  return used > 0 && of > 0 ? used / of : undefined
}

/** The group and those that it is in, as paths. */
const upwards = (group: string): ReadonlyArray<string> => {
  const parts = group.split("/").filter((part) => part !== "")
  return Array.from({ length: parts.length + 1 }, (_, i) => parts.slice(0, parts.length - i).join("/"))
}

const quotas = (root: string): ReadonlyArray<number> => {
  const found: Array<number | undefined> = []
  for (const line of read(`${root}/proc/self/cgroup`)?.trim().split("\n") ?? []) {
    // hierarchy:controllers:path; version 2 names no controllers
    const [, controllers = "", ...path] = line.split(":")
    for (const group of upwards(path.join(":"))) {
      if (controllers === "") {
        const [quota, period] = read(`${root}/sys/fs/cgroup/${group}/cpu.max`)?.trim().split(" ") ?? []
        found.push(share(quota, period))
      } else if (controllers.split(",").includes("cpu")) {
        const at = `${root}/sys/fs/cgroup/${controllers}/${group}`
        found.push(share(read(`${at}/cpu.cfs_quota_us`), read(`${at}/cpu.cfs_period_us`)))
      }
    }
  }
  return found.filter((quota) => quota !== undefined)
}

/** At least 1. `root` is where the files of the system are. @category getters */
export const cores = (root = "", available = os.availableParallelism()): number =>
  Math.max(1, Math.floor(Math.min(available, ...quotas(root))))
