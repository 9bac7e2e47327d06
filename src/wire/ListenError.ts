/** Why a server does not listen. */
import * as Data from "effect/Data"

/** The address cannot be had. @category errors */
export class ListenError extends Data.TaggedError("ListenError")<{
  readonly host: string
  readonly port: number
  readonly code: string
}> {
  override get message() {
    const { code, host, port } = this
    if (code === "EADDRINUSE") return `port ${port} of ${host} is taken; choose another, or 0 for a free one`
    if (code === "EACCES") return `port ${port} may not be used by this user; choose one from 1024 on`
    if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") return `${host} is no address of this machine`
    return `${host}:${port} cannot be listened on (${code})`
  }
}
