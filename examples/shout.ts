/** Answer in capitals: an environment of one's own, named from a configuration by its path. */
import { Environment } from "primerl"

export default Environment.make({
  name: "shout",
  tasks: [{ prompt: "all hands on deck" }, { prompt: "the sea was calm" }, { prompt: "he said nothing" }],
  reward: (task, { reply }) => (reply === task.prompt.toUpperCase() ? 1 : 0)
})
