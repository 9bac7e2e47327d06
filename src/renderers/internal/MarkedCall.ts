/** Tool calls in a section, each between markers with a marker between its head and its arguments, which are JSON. */
import type { CallReader, CallSink, CallSyntax } from "./CallReader.ts"
import { isJson } from "./JsonCall.ts"

/** What stands in a call, as far as it has come. @category model */
export interface Inside {
  readonly name: string | undefined
  readonly id?: string | undefined
  /** the part of the arguments that is certain */
  readonly arguments: string
}

/** @category model */
export interface Words {
  readonly section: { readonly open: string; readonly close: string }
  readonly begin: string
  readonly separator: string
  readonly end: string
  /** reads what stands before and behind the separator; `isWhole` once the call has ended */
  readonly inside: (head: string, tail: string, isWhole: boolean) => Inside
}

/** @category constructors */
export const makeReader = (words: Words, sink: CallSink): CallReader => {
  let raw = ""
  /** the parts of the call that is open */
  let head: string | undefined
  let tail: string | undefined
  let told: string | undefined
  let stray = ""
  let count = 0

  const progress = (isWhole: boolean): Inside | undefined => {
    if (head === undefined || tail === undefined) return undefined
    const inside = words.inside(head, tail, isWhole)
    if (inside.name === undefined || inside.name === "") return inside
    if (told === undefined) {
      sink.start(inside.name, inside.id)
      told = ""
    }
    if (inside.arguments.length > told.length) {
      sink.arguments(inside.arguments.slice(told.length))
      told = inside.arguments
    }
    return inside
  }
  const endCall = (closed: boolean) => {
    const inside = progress(closed)
    const { name, arguments: text } = inside ?? { name: undefined, arguments: undefined }
    const status = !closed
      ? "unclosed_block"
      : inside === undefined
        ? "malformed_structure"
        : name === undefined || name === ""
          ? "missing_name"
          : isJson(text ?? "")
            ? "ok"
            : "invalid_json"
    sink.end({
      status,
      raw,
      name: name === "" ? undefined : name,
      arguments: closed ? text : undefined,
      id: inside?.id
    })
    raw = ""
    head = undefined
    tail = undefined
    told = undefined
    count++
  }
  return {
    push: (text, isMarker) => {
      if (isMarker && text === words.begin && head === undefined) {
        raw = ""
        head = ""
      } else if (isMarker && text === words.separator && head !== undefined && tail === undefined) {
        raw += text
        tail = ""
      } else if (isMarker && text === words.end && head !== undefined) endCall(true)
      else {
        raw += text
        if (tail !== undefined) {
          tail += text
          progress(false)
        } else if (head !== undefined) head += text
        else stray += text
      }
    },
    finish: (closed) => {
      if (head !== undefined) endCall(false)
      else if (count === 0) {
        raw = stray
        sink.end({
          status: closed ? "malformed_structure" : "unclosed_block",
          raw,
          name: undefined,
          arguments: undefined
        })
      }
    }
  }
}

/** @category constructors */
export const syntax = (words: Words): CallSyntax => ({
  ...words.section,
  hasStrings: false,
  inner: [words.begin, words.separator, words.end],
  make: (sink) => makeReader(words, sink)
})
