/** Configuration files that live in memory. */
import * as PlatformError from "@effect/platform/Error"
import * as FileSystem from "@effect/platform/FileSystem"
import * as Path from "@effect/platform/Path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

export const files = (texts: Readonly<Record<string, string | Uint8Array>>) =>
  Layer.merge(
    Path.layer,
    FileSystem.layerNoop({
      exists: (path) => Effect.succeed(path in texts),
      readFile: (path) => {
        const text = texts[path]
        return text === undefined
          ? Effect.fail(
              new PlatformError.SystemError({
                module: "FileSystem",
                method: "readFile",
                reason: "NotFound",
                pathOrDescriptor: path
              })
            )
          : Effect.succeed(typeof text === "string" ? new TextEncoder().encode(text) : text)
      }
    })
  )
