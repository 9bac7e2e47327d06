import { describe, expect, it } from "vitest"
import { SftFile } from "../../src/config/SftFile.ts"
import * as Shape from "../../src/config/Shape.ts"
import { TrainFile } from "../../src/config/TrainFile.ts"

/** The keys without a sentence on what they mean. */
const undocumented = (shape: Shape.Shape, path = ""): ReadonlyArray<string> => {
  if (shape._tag === "List") return undocumented(shape.item, path)
  if (shape._tag !== "Table") return []
  return Array.from(shape.keys).flatMap(([key, { doc, shape }]) => [
    ...(doc.endsWith(".") ? [] : [`${path}${key}`]),
    ...undocumented(shape, `${path}${key}.`)
  ])
}

describe("the schemas of files", () => {
  it("say of every key what it means", () => {
    expect(undocumented(Shape.make(TrainFile))).toEqual([])
    expect(undocumented(Shape.make(SftFile))).toEqual([])
  })

  it("name every value that a key allows", () => {
    const shape = Shape.make(TrainFile)
    const policy = Shape.at(shape, ["orchestrator", "off_policy", "policy"])
    expect(policy).toMatchObject({ _tag: "Value", choices: ["pace", "drop", "strict"] })
    expect(Shape.at(shape, ["orchestrator", "train", "source", 0, "env", "id"])).toMatchObject({ resolves: "module" })
    expect(Shape.at(shape, ["orchestrator", "nothing"])).toBeUndefined()
  })
})
