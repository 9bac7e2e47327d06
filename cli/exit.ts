/** How a command ends: 0 done, 1 failed, 2 called wrongly, 130 interrupted. */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { plain } from "./display/Style.ts"

/** @category model */
export interface Ending {
  readonly code: number
  /** for standard error; empty when there is nothing to say */
  readonly text: string
}

/** A command line that is wrong. @category errors */
export class WrongCall extends Data.TaggedError("WrongCall")<{ readonly what: string }> {
  override get message() {
    return this.what
  }
}

const wrongCall = (what: string): Ending => ({ code: 2, text: `primerl: ${what}\n` })

const oneLine = (doc: HelpDoc.HelpDoc): string => plain(HelpDoc.toAnsiText(doc)).replace(/\s+/g, " ").trim()

const isValidationError = (error: unknown): error is ValidationError.ValidationError =>
  ValidationError.isValidationError(error as ValidationError.ValidationError)

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** @category conversions */
export const ending = (exit: Exit.Exit<unknown, unknown>): Ending => {
  if (Exit.isSuccess(exit)) return { code: 0, text: "" }
  const failure = Cause.failureOption(exit.cause)
  if (Option.isSome(failure)) {
    const error: unknown = failure.value
    if (error instanceof WrongCall) return wrongCall(error.what)
    if (isValidationError(error)) return wrongCall(oneLine(error.error))
    return { code: 1, text: `primerl: ${messageOf(error)}\n` }
  }
  if (Cause.isInterruptedOnly(exit.cause)) return { code: 130, text: "" }
  return { code: 1, text: `primerl: a defect; please report it\n${Cause.pretty(exit.cause)}\n` }
}
