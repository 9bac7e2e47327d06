/** llama.cpp through node-llama-cpp, which is no dependency of this package: it is used where it has been installed. */
import * as Fs from "node:fs"
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"

const version = "3.22.0"
const folder = "node_modules/.primerl/peers"
const entry = `${process.cwd()}/${folder}/node_modules/node-llama-cpp/dist/index.js`

/** What to install for the comparison. */
export const howToInstall = `npm install --prefix ${folder} --omit=optional node-llama-cpp@${version} @node-llama-cpp/${process.platform}-${process.arch}@${version}`

/** The little that is used of node-llama-cpp. */
interface Sampling {
  readonly temperature: number
  readonly topK: number
  readonly topP: number
  readonly seed: number
  readonly yieldEogToken: true
}
interface Sequence {
  readonly evaluate: (tokens: ReadonlyArray<number>, options: Sampling) => AsyncIterable<number>
  readonly clearHistory: () => Promise<void>
}
interface Context {
  readonly getSequence: () => Sequence
}
interface Model {
  readonly createContext: (options: {
    readonly contextSize: number
    readonly sequences: number
    readonly batchSize: number
    readonly threads: { readonly ideal: number; readonly min: number }
  }) => Promise<Context>
}
interface Llama {
  readonly loadModel: (options: { readonly modelPath: string }) => Promise<Model>
  readonly dispose: () => Promise<void>
  readonly systemInfo: string
}
interface Library {
  readonly getLlama: (options: {
    readonly gpu: false
    readonly build: "never"
    readonly logLevel: "error"
    readonly maxThreads: number
  }) => Promise<Llama>
}

export interface Options {
  readonly modelPath: string
  readonly sequences: number
  readonly contextSize: number
  readonly threads: number
}

export interface Request {
  readonly promptIds: Int32Array
  readonly maxTokens: number
  readonly temperature: number
  readonly seed: number
}

const sample = async (sequence: Sequence, { maxTokens, promptIds, seed, temperature }: Request) => {
  const options = { temperature, topK: 0, topP: 1, seed: seed + 1, yieldEogToken: true } as const
  const drawn: Array<number> = []
  await sequence.clearHistory()
  for await (const token of sequence.evaluate(Array.from(promptIds), options)) {
    drawn.push(token)
    if (drawn.length === maxTokens) break
  }
  return { tokenIds: drawn }
}

/** Answers requests, all at once; undefined where the library is not installed. */
export const open = ({ contextSize, modelPath, sequences, threads }: Options) =>
  Effect.gen(function* () {
    if (!Fs.existsSync(entry)) return undefined
    const library = yield* Effect.promise(() => import(pathToFileURL(entry).href) as Promise<Library>)
    const llama = yield* Effect.acquireRelease(
      Effect.promise(() => library.getLlama({ gpu: false, build: "never", logLevel: "error", maxThreads: threads })),
      (opened) => Effect.promise(() => opened.dispose())
    )
    const model = yield* Effect.promise(() => llama.loadModel({ modelPath }))
    const context = yield* Effect.promise(() =>
      model.createContext({ contextSize, sequences, batchSize: 512, threads: { ideal: threads, min: threads } })
    )
    const all = Array.from({ length: sequences }, () => context.getSequence())
    return (requests: ReadonlyArray<Request>) =>
      Effect.promise(() => Promise.all(requests.map((request, i) => sample(all[i]!, request))))
  })
