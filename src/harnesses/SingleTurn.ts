/** One model call: the prompt in, the answer out. */
import * as Harness from "../Harness.ts"

/** Asks the model once, whatever the task. @category harnesses */
export default Harness.make<unknown>({
  name: "single-turn",
  run: ({ messages, model }) => model.complete(messages)
})
