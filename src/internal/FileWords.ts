/** What a file system refused, in words that say what to do. */
import type { PlatformError } from "@effect/platform/Error"
import * as Predicate from "effect/Predicate"

const words: Readonly<Record<string, string>> = {
  ENOENT: "no such file or directory",
  EISDIR: "is a directory, not a file",
  ENOTDIR: "a part of its path is a file, not a directory",
  ENAMETOOLONG: "its name is too long",
  EACCES: "may not be used (permission denied)",
  EPERM: "may not be used (permission denied)",
  EROFS: "cannot be written (the file system is read-only)",
  ENOSPC: "cannot be written (no space left on the device)",
  EMFILE: "cannot be opened (too many open files)"
}

/** What the system calls it, where there is no better word. */
const reasons: Readonly<Record<string, string>> = {
  NotFound: words.ENOENT!,
  PermissionDenied: words.EACCES!
}

const codeOf = (cause: unknown): string =>
  Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : ""

/** Without the path, which whoever asked for the file names. @category conversions */
export const reasonInWords = (error: PlatformError): string => {
  if (error._tag === "BadArgument") return error.message
  return (
    words[codeOf(error.cause)] ?? reasons[error.reason] ?? `cannot be used (${codeOf(error.cause) || error.reason})`
  )
}

/** With the path that it is about, where that is known. @category conversions */
export const inWords = (error: PlatformError): string =>
  error._tag === "SystemError" && error.pathOrDescriptor !== undefined
    ? `${error.pathOrDescriptor}: ${reasonInWords(error)}`
    : reasonInWords(error)
