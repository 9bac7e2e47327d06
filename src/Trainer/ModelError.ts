/** What is wrong with a model directory, told by file and by field or tensor. */
import * as Data from "effect/Data"

/**
 * A model directory that cannot be read, written, or run.
 *
 * @category errors
 */
export class ModelError extends Data.TaggedError("ModelError")<{
  /** the file or directory */
  readonly path: string
  /** what was found, what is supported or expected */
  readonly reason: string
}> {
  override get message() {
    return `model ${this.path}: ${this.reason}`
  }
}
