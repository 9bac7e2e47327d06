/** Where the packages lie that a user's module imports without having them: this one, and the Effect that it runs on. */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import * as path from "node:path"
import { fileURLToPath } from "node:url"
import * as Either from "effect/Either"

/** As sources, as compiled, and from the bundle. */
const places = ["../index.ts", "../index.js", "../src/index.js"]

const here = import.meta.url

const ownIndex = (): string | undefined =>
  places.map((place) => fileURLToPath(new URL(place, here))).find((file) => fs.existsSync(file))

const ownEffect = (): string | undefined =>
  Either.getOrUndefined(
    Either.try(() => path.join(path.dirname(createRequire(here).resolve("effect/package.json")), "dist", "esm"))
  )

const resolves = (specifier: string, url: string): boolean =>
  Either.isRight(Either.try(() => createRequire(url).resolve(specifier)))

/** What the module at `url` cannot import from its own place, by name, with the file or folder that stands in. */
export const standIns = (url: string): Readonly<Record<string, string>> => {
  const index = resolves("primerl", url) ? undefined : ownIndex()
  const effect = resolves("effect/package.json", url) ? undefined : ownEffect()
  return {
    ...(index === undefined
      ? {}
      : { "primerl/testing": path.join(path.dirname(index), "testing", path.basename(index)), primerl: index }),
    ...(effect === undefined ? {} : { effect })
  }
}

/** Whether an error is about one of these packages, and which. */
export const missingPackage = (message: string): string | undefined =>
  /Cannot find (?:package|module) '(primerl|effect)(?:\/[^']*)?'/.exec(message)?.[1]
