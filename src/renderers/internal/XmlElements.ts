/** Tools called as elements in the way of Qwen's later models: the words that ask for it, the calls, and how they are read. */
import type { AssistantMessage } from "../../Message.ts"
import * as Arguments from "./Arguments.ts"
import { produced, type Writer } from "./Writer.ts"
import * as XmlCall from "./XmlCall.ts"

// wire format of these models, which were trained on these words
/** @category constants */
export const toolsBefore = "# Tools\n\nYou have access to the following functions:\n\n<tools>"
/** @category constants */
export const toolsAfter =
  "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:\n\n" +
  "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n" +
  "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple lines\n" +
  "</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n" +
  "- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within " +
  "<tool_call></tool_call> XML tags\n- Required parameters MUST be specified\n" +
  "- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT " +
  "after\n- If there is no function call available, answer the question like normal with your current knowledge and do " +
  "not tell the user about function calls\n</IMPORTANT>"

const words: XmlCall.Words = {
  call: ["<function=", ">"],
  callEnd: "</function>",
  argument: ["<parameter=", ">"],
  argumentEnd: "</parameter>",
  valuesOnLines: true,
  many: false
}

/** How these models call tools. @category constants */
export const callSyntax = XmlCall.syntax({ open: "<tool_call>", close: "</tool_call>" }, words)

/** Calls of a turn; `before` stands between content and the first of them. @category writing */
export const writeCalls = (
  writer: Writer,
  { content, toolCalls }: AssistantMessage,
  options: { readonly index: number; readonly spelling: "json" | "python"; readonly before: string }
) => {
  const part = produced(options.index)
  toolCalls?.forEach((call, order) => {
    if (order > 0) writer.text("\n", part)
    else if ((content ?? "").trim() !== "") writer.text(options.before, part)
    writer.scaffold("<tool_call>", part)
    writer.text(`\n<function=${call.name}>\n`, part)
    for (const [key, json] of Arguments.members(call.arguments)) {
      writer.text(`<parameter=${key}>\n${Arguments.spoken(json, options.spelling)}\n</parameter>\n`, part)
    }
    writer.text("</function>\n", part)
    writer.scaffold("</tool_call>", part)
  })
}
