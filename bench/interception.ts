/**
 * What the interception server adds to a request: rollouts that ask a provider through it, beside rollouts that ask
 * through a Python program which parses, records and forwards, and beside the provider alone. The three take turns in one
 * run, so that a busy machine slows all. Added time is the difference of the medians (of the 99th percentiles) from the
 * provider's own; a ratio is how much more the Python program adds, or how many times fewer requests per
 * second it serves, or how much more processor time of its own it takes for one.
 *
 *     npm run bench:interception [rounds] [requests]          32, 256 and 1,024 rollouts, provider of 0 and 20 ms
 *     npm run bench:interception memory [requests]            memory over 100,000 requests
 *
 * Python needs aiohttp (`python3 -m venv venv && venv/bin/pip install aiohttp`, `PYTHON=venv/bin/python`); without it the
 * program serves and asks with asyncio's own streams.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { loadavg } from "node:os"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { qwen3 } from "../test/tokenizer/qwen3.ts"
import { type Load, load, type Measured } from "./interception/load.ts"
import { serve } from "./interception/serve.ts"
import { upstream } from "./interception/upstream.ts"
import { median, slope, table } from "./numbers.ts"

const content = "The boats lie where they lay the evening before, nine of them, and the tide is out until noon."
const python = process.env.PYTHON ?? "python3"
const warmUp = 4000
const children: Array<ChildProcess> = []

/** Starts a part of the measurement in a process of its own; gives the first line that it prints, which is JSON. */
const start = <A>(command: string, args: ReadonlyArray<string>): Promise<A> => {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] })
  children.push(child)
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout! }).once("line", (line) => resolve(JSON.parse(line) as A))
    child.once("exit", (code) => reject(new Error(`${args.join(" ")} ended with ${code}`)))
  })
}
const own = <A>(...args: ReadonlyArray<string>) => start<A>(process.execPath, [process.argv[1]!, ...args])
const loaded = (options: Load) => own<Measured>("load", JSON.stringify(options))

/** The one answer, in the form of either asker: text, and ids with log-probabilities. */
const answer = (): string => {
  const ids = [...qwen3().encode(content).ids, qwen3().special("<|im_end|>")!]
  return JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 0,
    model: "policy",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content },
        finish_reason: "stop",
        token_ids: ids,
        logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -0.5 })) }
      }
    ],
    usage: { prompt_tokens: 100, completion_tokens: ids.length, total_tokens: 100 + ids.length }
  })
}

const measure = async (rounds: number, requests: number) => {
  const peer = fileURLToPath(new URL("interception_peer.py", `file://${process.cwd()}/bench/`))
  const hasPython = spawnSync(python, ["--version"]).status === 0
  const rows: Array<ReadonlyArray<string>> = []
  const ratios: Array<string> = []
  for (const delayMs of [0, 20]) {
    const { url: provider } = await own<{ readonly url: string }>("upstream", String(delayMs), answer())
    const { url: ours } = await own<{ readonly url: string }>("serve", provider)
    const theirs = hasPython
      ? await start<{ readonly url: string; readonly http: string }>(python, [peer, provider])
      : undefined
    const sides = [
      ["provider", undefined],
      ["primerl", ours],
      ...(theirs === undefined ? [] : [[`python ${theirs.http}`, theirs.url] as const])
    ] as const
    for (const [, control] of sides) {
      // What is compiled while it runs must have run; the others get the same.
      await loaded({ control, provider, agents: 64, content, requests: warmUp })
    }
    for (const agents of [32, 256, 1024]) {
      const measured = sides.map((): Array<Measured> => [])
      for (let round = 0; round < rounds; round++) {
        for (const [side, [, control]] of sides.entries()) {
          measured[side]!.push(
            await loaded({ control, provider, agents, content, requests: Math.max(requests, 2 * agents) })
          )
        }
      }
      const of = (side: number, key: keyof Measured) => median(measured[side]!.map((one) => one[key]))
      const added = (side: number, key: "p50" | "p99") => of(side, key) - of(0, key)
      for (const [side, [name]] of sides.entries()) {
        rows.push([
          `${delayMs} ms`,
          String(agents),
          name,
          of(side, "p50").toFixed(2),
          of(side, "p99").toFixed(2),
          side === 0 ? "" : added(side, "p50").toFixed(2),
          side === 0 ? "" : added(side, "p99").toFixed(2),
          of(side, "rate").toFixed(0),
          side === 0 ? "" : of(side, "cpu").toFixed(3),
          String(of(side, "failures"))
        ])
      }
      if (theirs !== undefined) {
        const name = `${agents}-${delayMs}ms`
        ratios.push(
          `ratio added-p50-${name} ${(added(2, "p50") / added(1, "p50")).toFixed(2)}`,
          `ratio added-p99-${name} ${(added(2, "p99") / added(1, "p99")).toFixed(2)}`,
          `ratio rate-${name} ${(of(1, "rate") / of(2, "rate")).toFixed(2)}`,
          `ratio cpu-${name} ${(of(2, "cpu") / of(1, "cpu")).toFixed(2)}`
        )
      }
    }
  }
  console.log(`load ${loadavg()[0]!.toFixed(1)}; times in ms`)
  console.log(table(["delay", "rollouts", "through", "p50", "p99", "+p50", "+p99", "req/s", "cpu", "failed"], rows))
  for (const ratio of ratios) console.log(ratio)
}

/** The heap after every tenth of the requests, with nothing left open but the rollouts that ask. */
const memory = async (requests: number) => {
  const { url: provider } = await own<{ readonly url: string }>("upstream", "0", answer())
  const { url: control } = await own<{ readonly url: string }>("serve", provider)
  const points: Array<readonly [number, number]> = []
  for (let tenth = 1; tenth <= 10; tenth++) {
    await loaded({ control, provider, agents: 64, content, requests: requests / 10 })
    const { heapUsed, rss } = (await (await fetch(`${control}/memory`)).json()) as NodeJS.MemoryUsage
    points.push([(tenth * requests) / 10, heapUsed])
    console.log(
      `${(tenth * requests) / 10} requests: heap ${(heapUsed / 1e6).toFixed(1)} MB, resident ${(rss / 1e6).toFixed(0)} MB`
    )
  }
  // the first tenths warm up code and connections
  console.log(`bytes of heap per request ${slope(points.slice(3)).toFixed(1)}`)
}

const [role, ...args] = process.argv.slice(2)
if (role === "upstream") upstream(Number(args[0]), args[1]!)
else if (role === "serve") serve(args[0]!)
else if (role === "load") {
  console.log(JSON.stringify(await load(JSON.parse(args[0]!) as Load)))
  process.exit(0)
} else {
  const work =
    role === "memory" ? memory(Number(args[0] ?? 100_000)) : measure(Number(role ?? 3), Number(args[0] ?? 2000))
  await work.finally(() => {
    for (const child of children) child.kill()
  })
  process.exit(0)
}
