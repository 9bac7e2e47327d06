/**
 * The part of a turn after its reasoning: content, and tool calls between two marker ids. A close marker inside a JSON
 * string is text of the argument, unless the string never ends.
 */
import type { ParsedToolCall } from "../../Renderer.ts"
import type { Decoder, TokenizerService } from "../../Tokenizer.ts"
import { makeStringScanner, type StringScanner } from "./jsonText.ts"
import * as Newlines from "./Newlines.ts"
import * as ToolCall from "./ToolCall.ts"

/** @category model */
export interface Pair {
  readonly open: number
  readonly close: number
}

/** @category model */
export interface BodyEvents {
  readonly content: (text: string) => void
  readonly toolCall: (call: ParsedToolCall) => void
}

/** @category model */
export interface BodyParser {
  readonly push: (id: number) => void
  readonly finish: () => void
}

interface OpenCall {
  readonly scanner: StringScanner
  readonly decoder: Decoder
  raw: string
  /** where the call would end if its string never does: the text before, and the ids after */
  early: { readonly raw: string; readonly ids: Array<number> } | undefined
}

/** @category constructors */
export const make = (options: {
  readonly tokenizer: TokenizerService
  readonly toolCall: Pair | undefined
  /** line breaks that the format puts before the content */
  readonly leading: number
  readonly on: BodyEvents
}): BodyParser => {
  const { on, tokenizer, toolCall } = options
  let newlines = Newlines.make({ leading: options.leading, trailing: 1 })
  let decoder = tokenizer.decoder()
  let content = ""
  /** blank text after a call is a separator until something follows it */
  let blank: string | undefined
  let call: OpenCall | undefined

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
  const pushText = (text: string) => emit(newlines.push(text))
  const endText = (beforeCall: boolean) => {
    pushText(decoder.flush())
    // the line break before a call is the format's only when there is content before it
    emit(newlines.end({ trim: beforeCall && content !== "" }))
  }
  const endCall = (raw: string, closed: boolean) => {
    call = undefined
    on.toolCall(ToolCall.parse(raw, closed))
    decoder = tokenizer.decoder()
    newlines = Newlines.make({ leading: 0, trailing: 1 })
    blank = ""
  }
  const pushCall = (open: OpenCall, id: number) => {
    const text = open.decoder.push(id)
    open.raw += text
    open.scanner.push(text)
    open.early?.ids.push(id)
  }
  const pushClose = (open: OpenCall, id: number) => {
    const { raw } = open
    if (!open.scanner.inString()) endCall(raw + open.decoder.flush(), true)
    else {
      pushCall(open, id)
      open.early ??= { raw, ids: [] }
    }
  }
  const push = (id: number): void => {
    if (call !== undefined) {
      if (id === toolCall?.close) pushClose(call, id)
      else pushCall(call, id)
    } else if (id === toolCall?.open) {
      endText(true)
      call = { scanner: makeStringScanner(), decoder: tokenizer.decoder(), raw: "", early: undefined }
    } else pushText(decoder.push(id))
  }
  const finish = (): void => {
    while (call !== undefined) {
      const { early, raw } = call
      if (early === undefined) {
        endCall(raw + call.decoder.flush(), false)
        return
      }
      endCall(early.raw, true)
      for (const id of early.ids) push(id)
    }
    endText(false)
  }
  return { push, finish }
}
