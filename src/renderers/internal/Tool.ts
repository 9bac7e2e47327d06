/** A tool as the templates hand it to the model. */
import type { ToolSpec } from "../../Message.ts"
import { type PythonJsonOptions, pythonJson } from "./pythonJson.ts"

/** What a model is told of a function. @category conversions */
export const inner = ({ description, name, parameters, strict }: ToolSpec) => ({
  name,
  description,
  parameters,
  strict
})

/** The function in the envelope that models were trained on; the bare form is not understood. @category conversions */
export const envelope = (tool: ToolSpec) => ({ type: "function", function: inner(tool) })

/** @category conversions */
export const json = (tool: ToolSpec, options?: PythonJsonOptions): string => pythonJson(envelope(tool), options)
