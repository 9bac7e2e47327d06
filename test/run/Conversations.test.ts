import * as FileSystem from "@effect/platform/FileSystem"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Conversations from "../../src/run/Conversations.ts"

describe("conversations of a file", () => {
  it.scoped("a line that is none is named in a few words", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const path = `${yield* fs.makeTempDirectoryScoped()}/data.jsonl`
      const good = '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
      const refusal = (line: string) =>
        Effect.gen(function* () {
          yield* fs.writeFileString(path, `${good}\n${line}\n`)
          return String(
            yield* Effect.flip(
              Conversations.of({ path, batchSize: 1, seqLen: 8, lossWeights: { system: 0, user: 0, tool: 0 } }, 1)
            )
          )
        })
      const lines = [
        "garbage",
        "{}",
        '{"messages":[]}',
        '{"messages":[{"role":"user","content":5}]}',
        good.slice(0, 30)
      ]
      for (const line of lines) {
        const words = yield* refusal(line)
        expect(words).toMatch(/data\.jsonl: line 2 is no \{"messages"/)
        expect(words.length).toBeLessThan(400 + path.length)
      }
      const message = (more: string) => `{"messages":[{"role":"assistant","content":null,${more}}]}`
      expect(yield* refusal(message('"tool_calls":[]'))).toContain(
        'line 2: messages.0: the key "tool_calls" is not one of role, content, reasoningContent, toolCalls; write toolCalls'
      )
      expect(yield* refusal(message('"toolCalls":[{"id":"a","type":"function","function":{}}]'))).toContain(
        'the key "type" is not one of id, name, arguments'
      )
    }).pipe(Effect.provide(NodeContext.layer))
  )
})
