import { expect, it } from "@effect/vitest"
import { missingPackage, standIns } from "../../src/internal/ownPackages.ts"

it("a module that has the packages itself gets none in their place", () => {
  expect(standIns(import.meta.url)).not.toHaveProperty("effect")
})

it("what Node and jiti say of a missing package names it, and says nothing of other packages", () => {
  expect(missingPackage("Cannot find package 'primerl' imported from /tmp/env.mjs")).toBe("primerl")
  expect(missingPackage("Cannot find module 'effect/Schema'\nRequire stack:\n- /tmp/env.ts")).toBe("effect")
  expect(missingPackage("Cannot find package 'primerl-extras' imported from /tmp/env.mjs")).toBeUndefined()
  expect(missingPackage("Cannot find package 'left-pad' imported from /tmp/env.mjs")).toBeUndefined()
})
