/** What formats of the ChatML kind share: `<|im_start|>{role}`, a line break, the text, `<|im_end|>` and a line break. */
import type { AssistantMessage, Message, ToolSpec } from "../../Message.ts"
import type { TokenizerService } from "../../Tokenizer.ts"
import * as Format from "./Format.ts"
import * as JsonCall from "./JsonCall.ts"
import * as Tool from "./Tool.ts"
import type { TurnFormat } from "./TurnParser.ts"
import { given, outside, produced, type Writer } from "./Writer.ts"

/** @category constants */
export const markers = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]

/** Special tokens of those that think and call tools. @category constants */
export const thinkingMarkers = [
  "<|im_start|>",
  "<|im_end|>",
  "<think>",
  "</think>",
  "<tool_call>",
  "</tool_call>"
] as const

/** How turns of those that think and call tools are read. @category parsing */
export const turnFormat = (
  tokenizer: TokenizerService,
  ids: Readonly<Record<(typeof thinkingMarkers)[number], number>>,
  own: Pick<TurnFormat, "calls" | "lines" | "emptyReasoningIsNone">
): TurnFormat => ({
  tokenizer,
  closeIds: [ids["<|im_end|>"]],
  endIds: Format.idsOf(tokenizer, ["<|endoftext|>"]),
  openIds: [ids["<|im_start|>"]],
  think: { open: "<think>", close: "</think>" },
  callClosesReasoning: true,
  ...own
})

/** Opens the turn of an assistant. @category writing */
export const openAssistant = (writer: Writer, index: number) =>
  writer.scaffold("<|im_start|>assistant\n", outside(index))

/** A model would end an assistant's turn itself; it would not write the line break after it. @category writing */
export const closeAssistant = (writer: Writer, index: number) => {
  writer.scaffold("<|im_end|>", produced(index))
  writer.text("\n", outside(index))
}

/** A turn that is nothing but its text. @category writing */
export const writeTurn = (writer: Writer, index: number, role: string, text: string) => {
  writer.scaffold(`<|im_start|>${role}\n`, outside(index))
  writer.text(text, given(index))
  writer.scaffold("<|im_end|>\n", outside(index))
}

/** Results in one turn of the user, for as long as they stand side by side. @category writing */
export const writeToolResult = (writer: Writer, messages: ReadonlyArray<Message>, index: number, content: string) => {
  if (messages[index - 1]?.role !== "tool") writer.scaffold("<|im_start|>user", outside(index))
  writer.scaffold("\n<tool_response>\n", outside(index))
  writer.text(content, given(index))
  writer.scaffold("\n</tool_response>", outside(index))
  if (messages[index + 1]?.role !== "tool") writer.scaffold("<|im_end|>\n", outside(index))
}

// wire format of the Qwen family, which was trained on these words
const toolsBefore =
  "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
  "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
const toolsAfter =
  "\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
  "<tool_call></tool_call> XML tags:\n<tool_call>\n" +
  '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'

/** The first turn of a conversation with tools: the system message, if there is one, and the tools. @category writing */
export const writeToolTurn = (
  writer: Writer,
  messages: ReadonlyArray<Message>,
  tools: ReadonlyArray<ToolSpec>
): number => {
  if (tools.length === 0) return 0
  const first = messages[0]
  const owner = first?.role === "system" ? 0 : -1
  writer.scaffold("<|im_start|>system\n", outside(owner))
  if (first?.role === "system") {
    writer.text(first.content, given(0))
    writer.text("\n\n", outside(0))
  }
  writer.scaffold(toolsBefore, outside(owner))
  for (const tool of tools) writer.text(`\n${Tool.json(tool)}`, outside(owner))
  writer.scaffold(`${toolsAfter}<|im_end|>\n`, outside(owner))
  return owner + 1
}

/** Calls as JSON, each between its markers, with a line break between two and after content. @category writing */
export const writeJsonCalls = (writer: Writer, message: AssistantMessage, index: number) => {
  message.toolCalls?.forEach((call, order) => {
    if (order > 0 || (message.content ?? "") !== "") writer.text("\n", produced(index))
    writer.scaffold("<tool_call>", produced(index))
    writer.text(JsonCall.write(call), produced(index))
    writer.scaffold("</tool_call>", produced(index))
  })
}
