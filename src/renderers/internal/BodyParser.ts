/**
 * The part of a turn after its reasoning: content, and blocks of tool calls between two markers. A close marker inside a
 * JSON string is text of the argument, unless the string never ends.
 */
import type { ToolSpec } from "../../Message.ts"
import type { CallReader, CallSink, CallSyntax, ReadCall } from "./CallReader.ts"
import { makeStringScanner, type StringScanner } from "./jsonText.ts"
import * as Newlines from "./Newlines.ts"
import type { Segment } from "./Segments.ts"

/** @category model */
export interface BodyEvents {
  readonly content: (text: string) => void
  readonly start: (name: string, id: string | undefined) => void
  readonly arguments: (text: string) => void
  readonly end: (call: ReadCall, span: readonly [start: number, end: number], source: string) => void
}

/** @category model */
export interface BodyParser {
  readonly push: (segment: Segment) => void
  readonly finish: () => void
}

interface Block {
  readonly reader: CallReader
  readonly scanner: StringScanner | undefined
  /** where the block would end if its string never does, and what follows */
  held: Array<Segment> | undefined
}

/** @category constructors */
export const make = (options: {
  readonly calls: CallSyntax | undefined
  readonly tools: ReadonlyArray<ToolSpec> | undefined
  /** line breaks that the format puts before the content, and between it and a call */
  readonly lines: { readonly before: number; readonly after: number; readonly always: boolean }
  readonly on: BodyEvents
}): BodyParser => {
  const { calls, lines, on } = options
  let newlines = Newlines.make({ leading: lines.before, trailing: lines.after })
  let content = ""
  /** blank text after a call is a separator until something follows it */
  let blank: string | undefined
  let block: Block | undefined
  /** of the call that is being read: its first token, its last so far, and its text */
  let from = 0
  let last = 0
  let source = ""

  const emit = (text: string) => {
    if (text === "") return
    if (blank !== undefined) {
      blank += text
      if (blank.trim() === "") return
      text = blank
      blank = undefined
    }
    content += text
    on.content(text)
  }
  // the line breaks before a call are the format's when there is content before it, in most formats
  const endText = (beforeCall: boolean) => emit(newlines.end({ trim: beforeCall && (lines.always || content !== "") }))

  const sink: CallSink = {
    start: (name, id) => on.start(name, id),
    arguments: (text) => on.arguments(text),
    end: (call) => {
      on.end(call, [from, last + 1], source)
      from = last + 1
      source = ""
    }
  }
  const open = (syntax: CallSyntax, segment: Segment) => {
    endText(true)
    from = segment.at
    last = segment.at
    source = segment.text
    block = {
      reader: syntax.make(sink, options.tools),
      scanner: syntax.hasStrings ? makeStringScanner() : undefined,
      held: undefined
    }
  }
  const read = (into: Block, segment: Segment) => {
    last = segment.at
    source += segment.text
    into.reader.push(segment.text, segment.isMarker)
  }
  const endBlock = (into: Block, close: Segment | undefined) => {
    block = undefined
    if (close !== undefined) {
      last = close.at
      source += close.text
    }
    into.reader.finish(close !== undefined)
    newlines = Newlines.make({ leading: 0, trailing: lines.after })
    blank = ""
  }
  const pushInBlock = (into: Block, segment: Segment, close: string) => {
    const isClose = segment.isMarker && segment.text === close
    const isInString = into.scanner?.inString() === true
    if (isClose && !isInString) {
      for (const one of into.held ?? []) read(into, { ...one, isMarker: false })
      endBlock(into, segment)
      return
    }
    into.scanner?.push(segment.text)
    if (into.held !== undefined) into.held.push(segment)
    else if (isClose) into.held = [segment]
    else read(into, segment)
  }
  const push = (segment: Segment): void => {
    if (block !== undefined && calls !== undefined) pushInBlock(block, segment, calls.close)
    else if (segment.isMarker && calls !== undefined && segment.text === calls.open) open(calls, segment)
    else emit(newlines.push(segment.text))
  }
  const finish = (): void => {
    while (block !== undefined) {
      const { held } = block
      endBlock(block, held?.[0])
      for (const segment of held?.slice(1) ?? []) push(segment)
      if (held === undefined) return
    }
    endText(false)
  }
  return { push, finish }
}
