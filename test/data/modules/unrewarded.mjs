import * as Environment from "../../../src/Environment.ts"

export default Environment.make({ name: "puzzles", tasks: ["one"] })
