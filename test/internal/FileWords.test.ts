import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as Effect from "effect/Effect"
import { afterAll, describe, expect, it } from "vitest"
import { inWords, reasonInWords } from "../../src/internal/FileWords.ts"

const directory = mkdtempSync(`${tmpdir()}/primerl-words-`)
afterAll(() => rmSync(directory, { recursive: true }))

const refusal = (path: string) =>
  Effect.runPromise(
    Effect.flip(Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFile(path))).pipe(
      Effect.provide(NodeFileSystem.layer)
    )
  )

describe("what a file system refuses", () => {
  it("is said in words", async () => {
    writeFileSync(`${directory}/file`, "")
    expect(reasonInWords(await refusal(`${directory}/gone`))).toBe("no such file or directory")
    expect(reasonInWords(await refusal(directory))).toBe("is a directory, not a file")
    expect(reasonInWords(await refusal(`${directory}/file/below`))).toMatch(/is a file, not a directory/)
    expect(reasonInWords(await refusal(`${directory}/${"a".repeat(300)}`))).toBe("its name is too long")
    expect(inWords(await refusal(`${directory}/gone`))).toBe(`${directory}/gone: no such file or directory`)
  })
})
