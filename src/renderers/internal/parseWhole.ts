/** The whole turn at once: the parser of a turn that is still arriving, given all of its tokens. */
import type { Parsed, ParseOptions, RendererService } from "../../Renderer.ts"

/** @category reading */
export const parseWhole = (
  parser: RendererService["parser"],
  completionIds: Int32Array,
  options?: ParseOptions
): Parsed => {
  const reading = parser(options)
  for (const id of completionIds) reading.push(id)
  return reading.finish().parsed
}
