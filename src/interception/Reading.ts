/**
 * Sampled ids to what the turn says, as they arrive, up to the first of the stop texts. Stop texts are looked for in the
 * content alone. What may yet become one is held back, so that nothing is said that a stop takes away.
 */
import type { AssistantMessage } from "../Message.ts"
import type { Parsed, ParseEvent, Parser } from "../Renderer.ts"
import * as Stops from "../wire/Stops.ts"
import type { Delta } from "./Delta.ts"

/** @category model */
export interface Reading {
  /** What the token brought. After a stop text nothing more comes. */
  readonly push: (id: number) => ReadonlyArray<Delta>
  /** whether there are stop texts */
  readonly canStop: boolean
  /** the stop text that ended the turn */
  readonly stop: () => string | undefined
  /** Ends the turn where it stands. */
  readonly finish: () => {
    readonly deltas: ReadonlyArray<Delta>
    readonly message: AssistantMessage
    readonly toolCalls: Parsed["toolCalls"]
  }
}

/** @category constructors */
export const make = (parser: Parser, stopTexts: ReadonlyArray<string>): Reading => {
  let stops = Stops.make(stopTexts)
  let stop: string | undefined
  /** content that may be the beginning of a stop text */
  let held = ""
  let content = ""
  const callIds = new Map<number, string>()

  const take = (events: ReadonlyArray<ParseEvent>): ReadonlyArray<Delta> => {
    const deltas: Array<Delta> = []
    const say = (text: string) => {
      if (text !== "") deltas.push({ type: "content", text })
    }
    const release = (keep: number) => {
      const free = held.slice(0, Math.max(0, held.length - keep))
      held = held.slice(free.length)
      content += free
      say(free)
    }
    for (const event of events) {
      if (stop !== undefined) break
      switch (event.type) {
        case "content": {
          const found = stops.push(event.text)
          held += event.text
          if ("stop" in found) {
            stop = found.stop
            release(found.cut)
            held = ""
          } else release(found.held)
          break
        }
        case "reasoning":
          release(0)
          deltas.push(event)
          break
        case "contentRevoked":
          stops = Stops.make(stopTexts)
          held = ""
          content = ""
          deltas.push(event)
          break
        case "toolCallStart":
          callIds.set(event.index, event.id)
          break
        case "toolCallEnd": {
          release(0)
          const { arguments: text, name, source, status } = event.call
          const id = callIds.get(event.index)
          if (status === "ok" && id !== undefined && name !== undefined && text !== undefined) {
            deltas.push({ type: "call", call: { id, name, arguments: text } })
          }
          // What was meant as a call and is none must come to the agent's eyes, or it takes the turn for an empty one.
          else say(source)
        }
      }
    }
    return deltas
  }

  return {
    canStop: stopTexts.length > 0,
    push: (id) => (stop === undefined ? take(parser.push(id)) : []),
    stop: () => stop,
    finish: () => {
      const { events, parsed } = parser.finish()
      const deltas = [...take(events)]
      if (held !== "" && stop === undefined) {
        content += held
        deltas.push({ type: "content", text: held })
        held = ""
      }
      const { message, toolCalls } = parsed
      return { deltas, toolCalls, message: stop !== undefined ? { ...message, content } : message }
    }
  }
}
