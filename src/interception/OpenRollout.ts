/** One rollout that is open to its agent: requests become turns of its session, each sampled once. */
import { createHash } from "node:crypto"
import type { ServerResponse } from "node:http"
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Either from "effect/Either"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as FiberId from "effect/FiberId"
import * as FiberSet from "effect/FiberSet"
import * as Option from "effect/Option"
import * as Runtime from "effect/Runtime"
import type * as Scope from "effect/Scope"
import type { Completion, CompletionError, Session } from "../Session.ts"
import { Tokenizer } from "../Tokenizer.ts"
import * as Decode from "../wire/Decode.ts"
import * as Logprobs from "../wire/Logprobs.ts"
import * as Answer from "./Answer.ts"
import type { Ask, Dialect } from "./Dialect.ts"
import * as Recall from "./Recall.ts"
import * as Refusals from "./Refusals.ts"
import * as Replays from "./Replays.ts"
import type { Route } from "./Routes.ts"
import * as Turn from "./Turn.ts"

/** @category model */
export interface Asked {
  readonly route: Extract<Route, { readonly dialect: Dialect }>
  readonly body: Uint8Array
  readonly isRetry: boolean
}

/** @category model */
export interface OpenRollout {
  readonly id: string
  readonly secret: Buffer
  readonly model: string
  readonly created: number
  readonly answer: (asked: Asked, response: ServerResponse) => void
  readonly beat: (nowMs: number) => void
}

const digestOf = ({ body, route }: Asked): string =>
  `${route.name} ${createHash("sha256").update(body).digest("base64")}`

/** How long a rollout's turns take is told by this clock; nothing else depends on it. */
const secondsOf = (clock: Clock.Clock) => Math.floor(clock.unsafeCurrentTimeMillis() / 1000)

/** What still runs when the scope closes is interrupted, and its clients hear that the rollout is over. @category constructors */
export const make = (options: {
  readonly id: string
  readonly secret: Buffer
  readonly session: Session
  readonly model: string
}): Effect.Effect<OpenRollout, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { id, model, session } = options
    const run = yield* FiberSet.makeRuntime<never, Completion, CompletionError>()
    const clock = yield* Effect.clock
    const tokenizer = yield* Effect.serviceOption(Tokenizer)
    const spelling = Option.match(tokenizer, { onNone: () => Logprobs.asId, onSome: Logprobs.asText })
    const replays = Replays.make()
    const recall = Recall.make()
    let asked = 0

    const runtime = yield* Effect.runtime()
    const settle = (turn: Turn.Turn, digest: string, exit: Exit.Exit<unknown, CompletionError>): void => {
      if (exit._tag === "Success") return
      replays.remove(digest, turn)
      const failure = Cause.failureOption(exit.cause)
      if (Option.isSome(failure)) turn.failed(Refusals.of(failure.value))
      else if (Cause.isInterrupted(exit.cause)) turn.failed(Refusals.over)
      else {
        turn.failed(Refusals.defect)
        Runtime.runFork(runtime, Effect.logError(Cause.pretty(exit.cause)))
      }
    }

    /** A turn that is not asked for yet, and what asks for it. */
    const prepare = (ask: Ask, digest: string) => {
      const identity = {
        id: `${id}${(asked++).toString(16).padStart(6, "0")}`,
        created: secondsOf(clock),
        model,
        spelling
      }
      let fiber: Fiber.RuntimeFiber<Completion, CompletionError> | undefined
      const turn = Turn.make({
        identity,
        giveUp: () => {
          replays.remove(digest, turn)
          fiber?.unsafeInterruptAsFork(FiberId.none)
        }
      })
      replays.add(digest, turn)
      const { maxTokens, messages, stop, tools } = ask
      const start = () => {
        fiber = run(
          session.turn(recall.restore(messages), {
            tools,
            maxTokens,
            stop,
            listener: {
              begun: turn.begun,
              said: turn.said,
              committed: (completion) => recall.add(turn.committed(completion), completion.message)
            }
          })
        )
        fiber.addObserver((exit) => settle(turn, digest, exit))
      }
      return { turn, start }
    }

    const takeTurn = (given: Asked, ask: Ask, response: ServerResponse): void => {
      const { dialect } = given.route
      const digest = digestOf(given)
      const found = replays.find(digest, given)
      const { start, turn } = found === undefined ? prepare(ask, digest) : { turn: found, start: () => {} }
      const answer = Answer.make(response, dialect, ask, {
        identity: turn.identity,
        startedMs: clock.unsafeCurrentTimeMillis()
      })
      response.on("close", () => {
        if (response.writableFinished) replays.taken(digest, turn)
        else turn.leave(answer)
      })
      // A turn may be said in full before `start` returns: whoever asked for it is there from its first word on.
      turn.join(answer)
      start()
    }

    const countTokens = (ask: Ask, dialect: Dialect, response: ServerResponse): void =>
      Either.match(session.countTokens(ask.messages, ask.tools), {
        onLeft: (error) => Answer.refuse(response, dialect, Refusals.of(error)),
        onRight: (tokens) => Answer.send(response, 200, { input_tokens: tokens })
      })

    return {
      id,
      secret: options.secret,
      model,
      created: secondsOf(clock),
      answer: (given, response) => {
        const { _tag, dialect } = given.route
        Either.match(Either.flatMap(Decode.parse(given.body), dialect.read), {
          onLeft: (error) => Answer.refuse(response, dialect, error),
          onRight: (ask) =>
            _tag === "CountTokens" ? countTokens(ask, dialect, response) : takeTurn(given, ask, response)
        })
      },
      beat: (nowMs) => {
        for (const turn of replays.turns()) for (const answer of turn.waiting) answer.beat(nowMs)
      }
    }
  })
