import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { describe, expect, it } from "vitest"
import { cores } from "../../src/internal/cores.ts"

/** `cores` of a machine with 16 processors and these files. */
const coresWith = (files: Readonly<Record<string, string>>): number => {
  const root = mkdtempSync(join(tmpdir(), "primerl-cores-"))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      writeFileSync(join(root, path), text)
    }
    return cores(root, 16)
  } finally {
    rmSync(root, { recursive: true })
  }
}

describe("cores", () => {
  it("are those of the affinity where nothing limits them", () => {
    expect(coresWith({})).toBe(16)
    expect(coresWith({ "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n" })).toBe(16)
  })

  it("are held to the least quota of the group and those that it is in", () => {
    const group = { "proc/self/cgroup": "0::/pods/one\n" }
    expect(coresWith({ ...group, "sys/fs/cgroup/pods/one/cpu.max": "300000 100000\n" })).toBe(3)
    const outer = { "sys/fs/cgroup/pods/cpu.max": "250000 100000\n" }
    expect(coresWith({ ...group, ...outer, "sys/fs/cgroup/pods/one/cpu.max": "300000 100000\n" })).toBe(2)
    // the inside of a container sees its own group as the root
    expect(coresWith({ "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n" })).toBe(1)
  })

  it("are held to the quota of version 1, where a quota of -1 is none", () => {
    const group = { "proc/self/cgroup": "5:memory:/m\n4:cpu,cpuacct:/docker/a\n" }
    const at = "sys/fs/cgroup/cpu,cpuacct/docker/a"
    const period = { [`${at}/cpu.cfs_period_us`]: "100000\n" }
    expect(coresWith({ ...group, ...period, [`${at}/cpu.cfs_quota_us`]: "400000\n" })).toBe(4)
    expect(coresWith({ ...group, ...period, [`${at}/cpu.cfs_quota_us`]: "-1\n" })).toBe(16)
  })
})
