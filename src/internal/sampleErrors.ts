/** How a sample can be wrong. Each error names the stream, and who wrote what. */
import * as Data from "effect/Data"
import type { Stream } from "../Credit.ts"

/** Two writers gave one token two values in one stream. @category errors */
export class CreditConflict extends Data.TaggedError("CreditConflict")<{
  readonly rollout: string
  readonly stream: Stream
  readonly node: number
  /** index of the token in its node */
  readonly token: number
  readonly writers: readonly [string, string]
  readonly values: readonly [number, number]
}> {
  override get message() {
    const [first, second] = this.writers
    const where = `rollout ${this.rollout}, message ${this.node}, token ${this.token}`
    return `${where}: ${first} and ${second} both set ${this.stream} (${this.values[0]} and ${this.values[1]}); let one of them own it`
  }
}

/** A stream of a sample that cannot be trained on as it is. @category errors */
export class InvalidSample extends Data.TaggedError("InvalidSample")<{
  readonly rollout: string
  readonly source: string
  readonly stream: string
  readonly reason: string
}> {
  override get message() {
    return `rollout ${this.rollout} of source ${this.source}, stream ${this.stream}: ${this.reason}`
  }
}
