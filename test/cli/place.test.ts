import { describe, expect, it } from "vitest"
import { quoted, shorter } from "../../cli/display/Place.ts"

describe("a path to copy", () => {
  it("is relative where that is shorter, and one word for a shell", () => {
    expect(shorter("/home/me/project/runs/a", "/home/me/project")).toBe("runs/a")
    expect(shorter("/home/me/work", "/home/me/work")).toBe(".")
    expect(shorter("/tmp/a", "/home/me/work")).toBe("/tmp/a")
    expect([quoted("runs/a-1"), quoted("my runs/it's")]).toEqual(["runs/a-1", "'my runs/it'\\''s'"])
  })
})
