import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const source = (path: string) => fileURLToPath(new URL(path, import.meta.url))

export default defineConfig({
  resolve: {
    alias: {
      "primerl/testing/vitest": source("src/testing/vitest.ts"),
      "primerl/testing": source("src/testing/index.ts"),
      primerl: source("src/index.ts")
    }
  },
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    pool: "threads",
    poolOptions: { threads: { maxThreads: 2, minThreads: 1 } }
  }
})
