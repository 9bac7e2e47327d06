/**
 * GRPO in one file: every number between a prompt and the next weights, from top to bottom, with nothing of primerl but the
 * engine, the tokenizer, the chat format and the packer. The task is reverse-text: a sentence in, the sentence backwards out.
 *
 *     npx jiti examples/grpo-in-one-file.ts
 *
 * Lines marked (run) are choices that GRPO leaves open, made as `primerl train examples/reverse-text/rl.toml` makes them:
 * the order of the sentences, the seed of each sample, weights one step old, and how sequences are packed. With them the
 * two print the same rewards and end on the same weights, bit for bit.
 */
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Console, Effect } from "effect"
import { ChatMl, Engine, HuggingFace, MicroBatch, Seed, Taskset, type TrainingSample } from "primerl"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

export const settings = {
  policy: path("./reverse-text/policy"),
  sentences: path("../data/reverse-text/sentences.txt"),
  seed: 1,
  steps: 40,
  /** sentences of a step, and answers to each of them */
  groups: 16,
  groupSize: 8,
  /** longest answer, and longest packed batch */
  maxTokens: 40,
  maxBatchTokens: 2048,
  learningRate: 2e-4,
  beta1: 0.9,
  beta2: 0.95,
  maxGradNorm: 1
}
export type Settings = typeof settings

// ---------------------------------------------------------------------------------------------------------- the reward

const reversed = (text: string) => Array.from(text).reverse().join("")

/** Length of the longest common subsequence of two texts: a row of the table for each character of `a`. */
const commonSubsequence = (a: string, b: string) => {
  const columns = Array.from(b)
  let above = new Array<number>(columns.length + 1).fill(0)
  for (const character of a) {
    const row = [0]
    columns.forEach((other, j) => {
      row.push(character === other ? above[j]! + 1 : Math.max(above[j + 1]!, row[j]!))
    })
    above = row
  }
  return above.at(-1)!
}

/** 2·LCS / (|answer| + |right answer|): 1 when they are equal, 0 when nothing agrees. */
const reward = (sentence: string, answer: string) => {
  if (answer === "") return 0
  const right = reversed(sentence)
  return (2 * commonSubsequence(answer, right)) / (Array.from(answer).length + Array.from(right).length)
}

// ------------------------------------------------------------------------------------------------------ the advantages

/** A = reward − mean reward of the group (arXiv 2402.03300, §4.1.2, without division by the deviation). */
const advantages = (rewards: ReadonlyArray<number>) => {
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length
  return rewards.every((reward) => reward === rewards[0])
    ? rewards.map(() => 0)
    : rewards.map((reward) => reward - mean)
}

// ------------------------------------------------------------------------------------------------------------ the loss

/** Furthest that the probability of a token may move in the direction in which its advantage pushes it. */
const trustRegion = 0.2
/** Weight of the squared log-ratio, which draws the trained policy to the one that sampled. */
const penalty = 1e-3

/**
 * DPPO, on each of the N sampled tokens of the step. With Δ = log π − log μ, of the trained and the sampling policy:
 *
 *     loss = 1/N · ( −A·exp Δ + 10⁻³·Δ² ),   d loss / d log π = 1/N · ( −A·exp Δ + 2·10⁻³·Δ )
 *
 * where the first term is left out once π − μ is over 0.2 and A > 0, or under −0.2 and A ≤ 0.
 */
const dppo = (batch: MicroBatch.MicroBatch, logprobs: Float32Array, N: number) => {
  const gradient = new Float32Array(batch.tokens)
  let loss = 0
  for (let t = 0; t < batch.tokens; t++) {
    if (batch.mask[t] === 0) continue
    const [A, trained, sampled] = [batch.advantages[t]!, logprobs[t]!, batch.logprobs[t]!]
    const delta = trained - sampled
    const moved = Math.exp(trained) - Math.exp(sampled)
    const left = A > 0 ? moved > trustRegion : moved < -trustRegion
    const policy = left ? 0 : -A * Math.exp(delta)
    loss += (1 / N) * (policy + penalty * delta * delta)
    gradient[t] = (1 / N) * (policy + 2 * penalty * delta)
  }
  return { loss, gradient }
}

// ------------------------------------------------------------------------------------------------------------ sampling

interface Answer {
  readonly prompt: Int32Array
  readonly completion: Int32Array
  /** log-probability of each token of the completion, under the weights that sampled it */
  readonly logprobs: Float32Array
  readonly reward: number
}

/** Prompt and answer as one sequence. Only the answer is trained, each of its tokens with the advantage of the whole. */
const sequence = (id: string, { completion, logprobs, prompt }: Answer, advantage: number) => {
  const length = prompt.length + completion.length
  const tokenIds = new Int32Array(length)
  tokenIds.set(prompt)
  tokenIds.set(completion, prompt.length)
  const sampled = new Float32Array(length)
  sampled.set(logprobs, prompt.length)
  const sample: TrainingSample.TrainingSample = {
    rollout: id,
    source: "reverse-text",
    policyVersion: 0,
    tokenIds,
    mask: new Uint8Array(length).fill(1, prompt.length),
    logprobs: sampled,
    temperatures: new Float32Array(length).fill(1),
    advantages: new Float32Array(length).fill(advantage, prompt.length),
    // for other losses: a reference model, tokens weighted or trained by cross-entropy
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: undefined,
    refKlWeights: undefined
  }
  return sample
}

// ------------------------------------------------------------------------------------------------------------ training

export interface Step {
  readonly step: number
  readonly reward: number
  readonly loss: number
  readonly gradNorm: number
}

/** Trains the policy, tells of each step, and hands over the engine that holds the last weights. */
export const train = <E>(settings: Settings, tell: (step: Step) => Effect.Effect<void, E>) =>
  Effect.gen(function* () {
    const { groupSize, groups, seed, steps } = settings
    const tokenizer = yield* HuggingFace.fromDirectory(settings.policy)
    const chat = yield* ChatMl.make(tokenizer)
    // one engine samples and one trains, so that both can hold weights of their own
    const sampler = yield* Engine.open(settings.policy)
    const trainer = yield* Engine.open(settings.policy, { trainable: true })

    const lines = readFileSync(settings.sentences, "utf8").trimEnd().split("\n")
    const training = lines.slice(0, lines.length - Math.floor(lines.length / 10))
    // (run) sentences in an order that is drawn from the seed, epoch by epoch
    const sentences = Taskset.shuffle(Taskset.make({ name: "reverse-text", tasks: training }), seed)

    /** One answer to the `group`-th sentence. */
    const ask = (group: number, member: number) =>
      Effect.gen(function* () {
        const key = sentences.keyAt("train", group)
        const sentence = sentences.find(key)!
        const prompt = chat.render([{ role: "user", content: sentence }], { addGenerationPrompt: true }).tokenIds
        const { logprobs, tokenIds: completion } = yield* sampler.generate({
          promptIds: prompt,
          maxTokens: settings.maxTokens,
          stopTokenIds: Int32Array.from(chat.stopTokenIds),
          // no nucleus, no top k: the distribution that is sampled is the one that the loss is about
          ...{ temperature: 1, topP: 1, topK: 0, minP: 0 },
          // (run) a seed that follows from what is sampled
          seed: Seed.ofTurn({
            run: seed,
            source: "reverse-text",
            example: key,
            attempt: group * groupSize + member,
            turn: 0
          })
        })
        const text = chat.parse(completion, { promptIds: prompt }).message.content ?? ""
        return { prompt, completion, logprobs, reward: reward(sentence, text) } satisfies Answer
      })

    /** The groups of a step, all of their answers at once. */
    const sample = (step: number) =>
      Effect.forEach(
        Array.from({ length: groups }, (_, i) => (step - 1) * groups + i),
        (group) =>
          Effect.all(
            Array.from({ length: groupSize }, (_, i) => ask(group, i)),
            { concurrency: "unbounded" }
          ),
        { concurrency: "unbounded" }
      )

    /** Forward, loss and backward over all that says anything, then AdamW. */
    const update = (answers: ReadonlyArray<ReadonlyArray<Answer>>) =>
      Effect.gen(function* () {
        const sequences = answers.flatMap((group, g) =>
          advantages(group.map(({ reward }) => reward)).flatMap((advantage, i) =>
            advantage === 0 ? [] : [sequence(`${g}/${i}`, group[i]!, advantage)]
          )
        )
        if (sequences.length === 0) return { loss: Number.NaN, gradNorm: Number.NaN }
        // (run) sums of float32 hang on their order, so sequences share batches as they do in the run
        const packed = MicroBatch.pack(sequences, { maxSequenceLength: settings.maxBatchTokens })
        let loss = 0
        for (const batch of packed.microBatches.flat()) {
          const { logprobs } = yield* trainer.forward(batch)
          const part = dppo(batch, logprobs, packed.counts.rl)
          yield* trainer.backward(part.gradient)
          loss += part.loss
        }
        const { beta1, beta2, learningRate, maxGradNorm } = settings
        const adamW = { learningRate, beta1, beta2, eps: 1e-8, weightDecay: 0, maxGradNorm }
        const { gradNorm } = yield* trainer.optimizerStep(adamW)
        return { loss, gradNorm }
      })

    let answers = yield* sample(1)
    for (let step = 1; step <= steps; step++) {
      // (run) the next step is sampled while this one trains, so on the weights from before it
      const next = step < steps ? yield* sample(step + 1) : []
      const { gradNorm, loss } = yield* update(answers)
      yield* sampler.adopt(yield* trainer.snapshot)
      const rewards = answers.flat().map(({ reward }) => reward)
      yield* tell({ step, reward: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length, loss, gradNorm })
      answers = next
    }
    return trainer
  })

if (process.argv[1] === path("./grpo-in-one-file.ts")) {
  const print = ({ reward, step }: Step) => Console.log(`step ${step}  reward ${reward.toFixed(3)}`)
  await train(settings, print).pipe(Effect.scoped, Effect.runPromise)
}
