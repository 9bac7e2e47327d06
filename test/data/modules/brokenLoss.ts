import * as Schema from "effect/Schema"
import * as RlLoss from "../../../src/Trainer/RlLoss.ts"

/** Reads its configuration, and breaks on it. */
export default RlLoss.define({
  type: "broken",
  Config: Schema.Struct({}),
  loss: () => {
    throw new Error("clip is not finite")
  }
})
