#!/usr/bin/env node
/** The `primerl` command: wiring and nothing else. */
import * as NodeContext from "@effect/platform-node/NodeContext"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import manifest from "../package.json" with { type: "json" }
import { ending } from "./exit.ts"
import { layer as layerRuns } from "./live.ts"
import * as Output from "./Output.ts"
import { program } from "./program.ts"
import { guarded } from "./stray.ts"

program(process.argv.slice(2), manifest.version).pipe(
  guarded(process),
  Effect.provide(Layer.merge(layerRuns, Output.layerProcess).pipe(Layer.provideMerge(NodeContext.layer))),
  NodeRuntime.runMain({
    disableErrorReporting: true,
    disablePrettyLogger: true,
    teardown: (exit, onExit) => {
      const { code, text } = ending(exit)
      process.stderr.write(text)
      onExit(code)
    }
  })
)
