import { describe, expect, it } from "vitest"
import { editDistance, nearest } from "../../src/internal/Nearest.ts"

describe("nearest", () => {
  it("counts a swap of neighbours as one edit", () => {
    expect(editDistance("bacth_size", "batch_size")).toBe(1)
    expect(editDistance("kitten", "sitting")).toBe(3)
    expect(editDistance("", "abc")).toBe(3)
  })

  it("suggests what is close and nothing that is not", () => {
    expect(nearest("trian", ["train", "plan"])).toBe("train")
    expect(nearest("LR", ["lr", "eps"])).toBe("lr")
    expect(nearest("zebra", ["train", "plan"])).toBeUndefined()
  })
})
