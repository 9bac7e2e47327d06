/** What the run logs, as lines on standard error: standard output is for what a command is asked for. */
import * as Effect from "effect/Effect"
import * as Inspectable from "effect/Inspectable"
import * as Logger from "effect/Logger"
import type { OutputService } from "./Output.ts"

const words = (message: unknown): string =>
  (Array.isArray(message) ? message : [message]).map((part) => Inspectable.toStringUnknown(part, 0)).join(" ")

/** @category layers */
export const layer = ({ writeError }: OutputService) =>
  Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ logLevel, message }) => {
      Effect.runSync(writeError(`primerl: ${logLevel.label.toLowerCase()}: ${words(message)}\n`))
    })
  )
