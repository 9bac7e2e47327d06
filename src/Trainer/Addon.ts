/** Finds and loads the native addon, once per process; nothing of it runs before the first use. */
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import type { NativeAddon } from "./Native.ts"
import { fromUnknown, NativeError } from "./NativeError.ts"

const require = createRequire(import.meta.url)

/** Seen from the sources and from a bundle, then from the compiled sources. */
const candidates = ["../../native/build/primerl.node", "../../../native/build/primerl.node"].map((relative) =>
  fileURLToPath(new URL(relative, import.meta.url))
)

const isMissing = (cause: unknown) =>
  cause instanceof Error && "code" in cause && cause.code === "MODULE_NOT_FOUND" && !cause.message.includes("GLIBC")

const loadFrom = (path: string) =>
  Effect.try({
    try: () => require(path) as NativeAddon,
    catch: (cause) =>
      isMissing(cause)
        ? new NativeError({
            operation: "load",
            code: "ERR_NOT_BUILT",
            reason: `there is no ${candidates[0]}; build it with "npm run build:native" (it needs a C++ compiler)`
          })
        : fromUnknown("load", cause)
  })

/** @category constructors */
export const load: Effect.Effect<NativeAddon, NativeError> = Effect.catchIf(
  loadFrom(candidates[0]!),
  (error) => error.code === "ERR_NOT_BUILT",
  (first) =>
    Effect.catchIf(
      loadFrom(candidates[1]!),
      (error) => error.code === "ERR_NOT_BUILT",
      () => first
    )
)
