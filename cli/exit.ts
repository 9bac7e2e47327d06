/** How a command ends: 0 done, 1 failed, 2 called wrongly, 130 interrupted. */
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as ValidationError from "@effect/cli/ValidationError"
import * as Cause from "effect/Cause"
import * as Data from "effect/Data"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { plain } from "./display/Style.ts"
import { OutputError } from "./Output.ts"

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

/** What a file or a user's code holds must not steer the terminal. */
const visible = (text: string): string =>
  text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is escaped
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`
  )

const saying = (code: number, what: string): Ending => ({ code, text: visible(`primerl: ${what}\n`) })

const wrongCall = (what: string): Ending => saying(2, what)

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
    // It was said when it happened.
    if (error instanceof OutputError) return { code: 1, text: "" }
    if (isValidationError(error)) return wrongCall(oneLine(error.error))
    return saying(1, messageOf(error))
  }
  if (Cause.isInterruptedOnly(exit.cause)) return { code: 130, text: "" }
  return saying(1, `a defect; please report it\n${Cause.pretty(exit.cause)}`)
}
