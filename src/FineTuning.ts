/**
 * Supervised fine-tuning: cross-entropy on the tokens that an assistant would have produced, and, where it is asked for, on
 * what others say to it.
 */
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Message, Role, ToolSpec } from "./Message.ts"
import * as MicroBatch from "./MicroBatch.ts"
import { type Rendered, Renderer, type RendererService } from "./Renderer.ts"

import type { SftReport } from "./Report.ts"
import { Trainer } from "./Trainer/Trainer.ts"
import * as TrainingSample from "./TrainingSample.ts"

/** Nothing in a step that could be trained. @category errors */
export class FineTuningError extends Data.TaggedError("FineTuningError")<{
  readonly step: number
  readonly reason: string
}> {
  override get message() {
    return `step ${this.step}: ${this.reason}`
  }
}

/**
 * A conversation as a sample whose `ce` members are the tokens that its assistant produced, with weight 1, and the bodies of
 * messages that have a weight of their own.
 *
 * @category constructors
 */
export const sample = (
  id: string,
  rendered: Rendered,
  weightOf: (message: number) => number = () => 0
): TrainingSample.TrainingSample => {
  const length = rendered.tokenIds.length
  const weight = (at: number) => (rendered.isContent[at] === 1 ? weightOf(rendered.messageIndices[at]!) : 0)
  return {
    rollout: id,
    source: "sft",
    policyVersion: 0,
    tokenIds: rendered.tokenIds,
    mask: new Uint8Array(length),
    logprobs: new Float32Array(length),
    temperatures: new Float32Array(length).fill(1),
    advantages: undefined,
    referenceLogprobs: undefined,
    rlWeights: undefined,
    ceWeights: Float32Array.from(rendered.sampledMask, (sampled, at) => (sampled === 1 ? 1 : weight(at))),
    refKlWeights: undefined
  }
}

/** What is trained on, for how long, and in what portions. @category model */
export interface Options<E, R> {
  /** conversations in the order of training; when they end, so does the run */
  readonly conversations: Stream.Stream<ReadonlyArray<Message>, E, R>
  readonly steps: number
  /** conversations per step */
  readonly batchSize: number
  /** tokens of a micro-batch; longer conversations are cut */
  readonly maxSequenceLength: number
  /** tools that every conversation is told of; none when absent */
  readonly tools?: ReadonlyArray<ToolSpec> | undefined
  /** weight of what others say, by role; 0, which is not learned, when absent. The assistant's has weight 1 */
  readonly weights?: Readonly<Partial<Record<Role, number>>> | undefined
}

/** A message that the chat format cannot say is an error that shows the conversation, not a defect. */
const rendered = (
  renderer: RendererService,
  messages: ReadonlyArray<Message>,
  { step, tools }: { readonly step: number; readonly tools: ReadonlyArray<ToolSpec> | undefined }
) =>
  Effect.try({
    try: () => renderer.render(messages, { tools }),
    catch: (cause) =>
      new FineTuningError({
        step,
        reason: `${cause instanceof Error ? cause.message : String(cause)}, in ${JSON.stringify(messages).slice(0, 200)}`
      })
  })

/** Training as a stream: each element is one finished step. @category constructors */
export const steps = <E, R>(options: Options<E, R>) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const trainer = yield* Trainer
      const renderer = yield* Renderer
      const train = Effect.fn("FineTuning.step")(function* (
        conversations: ReadonlyArray<ReadonlyArray<Message>>,
        step: number
      ) {
        const started = yield* Clock.currentTimeMillis
        const samples = yield* Effect.forEach(conversations, (messages, i) =>
          Effect.map(rendered(renderer, messages, { step, tools: options.tools }), (tokens) =>
            sample(`${step}/${i}`, tokens, (at) => options.weights?.[messages[at]!.role] ?? 0)
          )
        )
        const { maxSequenceLength } = options
        const packed = MicroBatch.pack(samples, { maxSequenceLength })
        if (packed.counts.ce === 0) {
          return yield* new FineTuningError({
            step,
            reason: `none of ${samples.length} conversations has an assistant's token within seq_len ${maxSequenceLength}`
          })
        }
        const trained = yield* trainer.step(packed, step)
        const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
        const report: SftReport = {
          step,
          steps: options.steps,
          loss: trained.loss.ce,
          gradNorm: trained.gradNorm,
          learningRate: trained.learningRate,
          tokens: packed.tokens,
          untrained: samples.filter(
            (one) => !TrainingSample.hasMembers(TrainingSample.truncate(one, maxSequenceLength))
          ).length,
          truncated: packed.truncated,
          tokensPerSecond: seconds > 0 ? packed.tokens / seconds : 0,
          seconds,
          optimizerApplied: trained.applied
        }
        return report
      })
      return options.conversations.pipe(
        Stream.grouped(options.batchSize),
        Stream.take(options.steps),
        Stream.zipWithIndex,
        Stream.mapEffect(([chunk, index]) => train(Chunk.toReadonlyArray(chunk), index + 1))
      )
    })
  )
