/** One model call: the prompt in, the answer out. */
import * as Harness from "../Harness.ts"

/** @category harnesses */
export const singleTurn: Harness.Harness = Harness.make({
  name: "single-turn",
  run: ({ messages, model }) => model.complete(messages)
})

export default singleTurn
