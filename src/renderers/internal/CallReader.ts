/** What reads the inside of a tool call block, whatever the format writes there, and what it tells while it does. */
import type { ToolSpec } from "../../Message.ts"
import type { ToolCallStatus } from "../../Renderer.ts"

/** A call whose block ended, as far as it is known. @category model */
export interface ReadCall {
  readonly status: ToolCallStatus
  readonly raw: string
  readonly name: string | undefined
  readonly arguments: string | undefined
  /** the id that the model gave it */
  readonly id?: string | undefined
}

/** Takes what is known of the calls of one block; a call is started, if at all, before its arguments, and ended once. @category model */
export interface CallSink {
  readonly start: (name: string, id?: string) => void
  readonly arguments: (text: string) => void
  readonly end: (call: ReadCall) => void
}

/** Reads one block. @category model */
export interface CallReader {
  readonly push: (text: string, isMarker: boolean) => void
  /** `closed` is false where the turn ended inside the block */
  readonly finish: (closed: boolean) => void
}

/** How a format writes its tool calls. @category model */
export interface CallSyntax {
  readonly open: string
  readonly close: string
  /** a close marker inside a JSON string is text of it */
  readonly hasStrings: boolean
  /** markers inside of the block, beside its own two */
  readonly inner: ReadonlyArray<string>
  readonly make: (sink: CallSink, tools: ReadonlyArray<ToolSpec> | undefined) => CallReader
}
