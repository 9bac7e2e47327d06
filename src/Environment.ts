/**
 * A task, a harness and a runtime, and what an answer is worth. Every planned rollout ends as exactly one value: scored,
 * or absent with who is to blame. Nothing that breaks in it becomes a reward of 0, and nothing fails the caller.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FiberRef from "effect/FiberRef"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Scope from "effect/Scope"
import * as Harness from "./Harness.ts"
import singleTurn from "./harnesses/SingleTurn.ts"
import type { Inference } from "./Inference.ts"
import * as Interception from "./Interception.ts"
import { environmentFault } from "./internal/environmentFault.ts"
import { inWords } from "./internal/inWords.ts"
import type { Message } from "./Message.ts"
import type { Renderer } from "./Renderer.ts"
import * as Reward from "./Reward.ts"
import { absent, type Blame, type Ended, type Planned, type Reason, type Rollout, type StopReason } from "./Rollout.ts"
import * as Runtime from "./Runtime.ts"
import * as Seed from "./Seed.ts"
import * as Session from "./Session.ts"
import * as Taskset from "./Taskset.ts"
import * as Trace from "./Trace.ts"
import type { ListenError } from "./wire/ListenError.ts"

/** How the policy is sampled in a rollout. @category model */
export type Sampling = Session.Sampling

/** An environment that can never run as it was made. @category errors */
export class EnvironmentError extends Data.TaggedError("EnvironmentError")<{
  readonly environment: string
  readonly reason: string
}> {
  override get message() {
    return `environment ${this.environment}: ${this.reason}`
  }
}

/** How one rollout is sampled, and when it is given up. @category model */
export interface RolloutOptions {
  /** seed of the run */
  readonly seed: number
  readonly sampling?: Sampling | undefined
  /** most model calls; the environment's own limit when absent */
  readonly maxTurns?: number | undefined
  /** when this comes, the rollout is given up */
  readonly cancelled?: Effect.Effect<Extract<Reason, { _tag: "Cancelled" }>["why"]> | undefined
}

/** Tasks of whatever type, ready to run. @category model */
export interface Environment {
  readonly name: string
  readonly harness: string
  readonly examples: Pick<Taskset.Taskset<unknown>, "size" | "keyAt">
  /** one rollout, typed errors included in its value; `rollout` also takes care of interruption */
  readonly run: (planned: Planned, options: RolloutOptions) => Effect.Effect<Ended, never, Inference | Renderer>
}

/** Whether a rollout ends here, where the model is about to be asked again. @category model */
export type StopCondition<T> = (task: T, moment: Session.Moment) => Reward.Value<boolean>

type Prompt = string | ReadonlyArray<Message>

/** Tasks, harness, runtime and rewards of an environment. @category model */
export type Options<T> = (
  | { readonly tasks: ReadonlyArray<T>; readonly taskset?: undefined }
  | { readonly taskset: Taskset.Taskset<T>; readonly tasks?: undefined }
) & {
  readonly name: string
  /**
   * How the model is driven: a harness, or an agent of yours, any code that takes a base URL and a key. One model call
   * when absent
   */
  readonly harness?: Harness.Harness<NoInfer<T>> | Harness.Agent<NoInfer<T>> | undefined
  /** first messages of a task; a text is one user message. When absent: the task if it is a text, or its `prompt` */
  readonly prompt?: ((task: NoInfer<T>) => Reward.Value<Prompt>) | undefined
  /** what algorithms and judges may read of a task and the policy may not, by name: a demonstration, a reference answer */
  readonly info?: ((task: NoInfer<T>) => Reward.Value<Readonly<Record<string, string>>>) | undefined
  readonly reward: Reward.Rewards<NoInfer<T>>
  readonly metrics?: Readonly<Record<string, Reward.Score<NoInfer<T>>>> | undefined
  /**
   * Conditions that end a rollout, by the names under which its trace tells which one did (`trace.stop`). They are judged
   * in their order before each model call, when what tools said last is known; the stop reason is "task"
   */
  readonly stops?: Readonly<Record<string, StopCondition<NoInfer<T>>>> | undefined
  /** makes the runtime ready for a task before the harness starts: files that it finds, a service that it needs */
  readonly setup?: ((task: NoInfer<T>, runtime: Runtime.RuntimeService) => Reward.Value<unknown>) | undefined
  /** one is built for each rollout; this process when absent */
  readonly runtime?: Layer.Layer<Runtime.Runtime, unknown> | undefined
  /** most model calls of a rollout; no limit when absent */
  readonly maxTurns?: number | undefined
  /** time for the harness alone; at its end the rollout is scored as it stands, with stop reason "timeout" */
  readonly timeoutMs?: number | undefined
  /** time for all rewards and metrics together; more is a failure of the task */
  readonly scoringTimeoutMs?: number | undefined
}

/** A failure with who is to blame, on its way to becoming an `Absent`. */
class Blamed extends Data.TaggedError("Blamed")<{ readonly blame: Blame; readonly reason: string }> {}

const why = (cause: Cause.Cause<unknown>) => {
  if (Cause.isInterruptedOnly(cause)) return "it interrupted itself"
  const words = inWords(Cause.squash(cause))
  return Cause.isFailure(cause) ? words : `defect: ${words}`
}

/** A failure that says of itself whose it is. */
const own = (cause: Cause.Cause<unknown>): Blame | undefined => {
  const error = Cause.squash(cause)
  if (Predicate.isTagged(error, "RuntimeError")) return "runtime"
  return Predicate.isTagged(error, "ToolError") ? "tools" : undefined
}

/** Whatever it ends with gets the blame. An interruption from outside never comes here: it passes by every handler. */
const blame =
  (blame: Blame, what: string) =>
  <A, E, R>(self: Effect.Effect<A, E, R>): Effect.Effect<A, Blamed, R> =>
    Effect.catchAllCause(self, (cause) => Effect.fail(new Blamed({ blame, reason: `${what}: ${why(cause)}` })))

/** What fails in a runtime that is gone is the runtime's. */
const unlessDead =
  ({ alive, name }: Runtime.RuntimeService) =>
  (blamed: Blamed): Effect.Effect<never, Blamed> =>
    Effect.flatMap(alive, (lives) =>
      Effect.fail(lives ? blamed : new Blamed({ blame: "runtime", reason: `${name} died under ${blamed.reason}` }))
    )

/** An effect that code of the user's makes: to throw, or to make none, is to fail. */
const made = <A, E, R>(what: string, make: () => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const effect: unknown = make()
    return Effect.isEffect(effect)
      ? (effect as Effect.Effect<A, E, R>)
      : Effect.dieMessage(`its ${what} gave ${inWords(effect)}, and no Effect`)
  })

const isListenError = Predicate.isTagged("ListenError")

const defaultPrompt = (task: unknown): Prompt | undefined => {
  if (typeof task === "string") return task
  if (typeof task !== "object" || task === null || !("prompt" in task)) return undefined
  return typeof task.prompt === "string" || Array.isArray(task.prompt) ? (task.prompt as Prompt) : undefined
}

const toMessages = (prompt: Prompt | undefined): ReadonlyArray<Message> =>
  prompt === undefined ? [] : typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt

const answerOf = (trace: Trace.Trace, stopReason: StopReason, runtime: Runtime.RuntimeService): Reward.Answer => {
  const last = trace.nodes.findLastIndex((node) => node.sampled)
  const path: Array<Message> = []
  for (let at: number | undefined = last === -1 ? undefined : last; at !== undefined; at = trace.nodes[at]!.parent) {
    path.push(trace.nodes[at]!.message)
  }
  return {
    reply: Trace.lastReply(trace),
    messages: path.reverse(),
    trace,
    turns: Trace.turns(trace),
    stopReason,
    runtime
  }
}

/**
 * An environment from its tasks and callbacks; the tasks alone fix the type of what the callbacks are given. Throws
 * `EnvironmentError`, `TasksetError` or `ScoreError` when it can never run.
 *
 * @category constructors
 */
export const make = <T>(options: Options<T>): Environment => {
  const { metrics, name, reward, runtime = Runtime.layerInProcess, scoringTimeoutMs, timeoutMs } = options
  const fault = environmentFault(options)
  if (fault !== undefined) throw new EnvironmentError({ environment: name, reason: fault })
  const taskset = options.taskset ?? Taskset.make({ name, tasks: options.tasks })
  const harness: Harness.Harness<T> =
    typeof options.harness === "function" ? Harness.fromAgent(options.harness) : (options.harness ?? singleTurn)
  const ownServer = Effect.runSync(Interception.shared())
  const prompt = options.prompt ?? defaultPrompt
  const score = Reward.make<T>(reward, metrics)
  const first = taskset.find(taskset.keyAt("train", 0))
  if (options.prompt === undefined && harness.needsPrompt && defaultPrompt(first) === undefined) {
    throw new EnvironmentError({
      environment: name,
      reason: `harness ${harness.name} needs a prompt and the tasks have none; give \`prompt\`, or tasks with a \`prompt\` field`
    })
  }

  /** Drives the harness to its end and says why it ended. */
  const drive = Effect.fnUntraced(function* (
    task: T,
    session: Session.Session,
    endpoint: Effect.Effect<Interception.Endpoint, ListenError>
  ) {
    const messages = toMessages(
      yield* Reward.evaluate<Prompt | undefined>(() => prompt(task)).pipe(blame("task", "its prompt"))
    )
    const { model, timed } = session
    const run = made("run", () => harness.run({ task, messages, model, endpoint, timed }))
    const ended = yield* Effect.exit(
      timeoutMs === undefined ? Effect.asSome(run) : Effect.timeoutOption(run, timeoutMs)
    )
    const { calls, cut, failure, stop, trace } = yield* session.progress
    if (Exit.isSuccess(ended) && Option.isNone(ended.value)) {
      if (Trace.turns(trace) > 0) return "timeout" as const
      const blamed = calls === 0 ? ("harness" as const) : ("provider" as const)
      return yield* new Blamed({ blame: blamed, reason: `no model turn was finished within ${timeoutMs} ms` })
    }
    if (failure !== undefined) {
      const blamed = failure._tag === "ConditionError" ? ("task" as const) : ("provider" as const)
      return yield* new Blamed({ blame: blamed, reason: failure.message })
    }
    if (stop !== undefined) return stop
    if (Exit.isFailure(ended)) {
      const { alive, name: where } = yield* Runtime.Runtime
      const gone = !(yield* alive)
      if (isListenError(Cause.squash(ended.cause))) {
        return yield* new Blamed({ blame: "interception", reason: why(ended.cause) })
      }
      const reason = `${harness.name}: ${why(ended.cause)}`
      return yield* new Blamed(
        gone
          ? { blame: "runtime", reason: `${where} died under ${reason}` }
          : { blame: own(ended.cause) ?? "harness", reason }
      )
    }
    return cut ? ("length" as const) : ("done" as const)
  })

  const scored = (task: T, answer: Reward.Answer) => {
    const all = score(task, answer).pipe(blame("task", "scoring"), Effect.catchAll(unlessDead(answer.runtime)))
    if (scoringTimeoutMs === undefined) return all
    const late = () => new Blamed({ blame: "task", reason: `scoring took longer than ${scoringTimeoutMs} ms` })
    return Effect.timeoutFail(all, { duration: scoringTimeoutMs, onTimeout: late })
  }

  const attempt = Effect.fnUntraced(function* (planned: Planned, given: RolloutOptions, scope: Scope.Scope) {
    const task = taskset.find(planned.example)
    if (task === undefined) {
      return yield* new Blamed({ blame: "environment", reason: `${name} has no example "${planned.example}"` })
    }
    const clock = yield* Effect.clock
    const beganMs = clock.unsafeCurrentTimeMillis()
    const context = yield* Layer.buildWithScope(runtime, scope).pipe(blame("runtime", "it did not start"))
    const place = Context.get(context, Runtime.Runtime)
    yield* Reward.evaluate(() => options.setup?.(task, place)).pipe(
      blame("task", "its setup"),
      Effect.catchAll(unlessDead(place))
    )
    const setUpMs = clock.unsafeCurrentTimeMillis()
    const { example, sequence, source } = planned
    const session = yield* Session.make({
      sampling: given.sampling ?? {},
      maxTurns: given.maxTurns ?? options.maxTurns,
      stops: Object.entries(options.stops ?? {}).map(([condition, holds]) => ({
        name: condition,
        holds: (moment) => Reward.evaluate(() => holds(task, moment))
      })),
      beganMs,
      seedOf: (turn) => Seed.ofTurn({ run: given.seed, source, example, attempt: sequence, turn })
    })
    const provided = yield* Effect.serviceOption(Interception.Interception)
    const server = Option.match(provided, { onNone: () => ownServer, onSome: Effect.succeed })
    const endpoint = yield* Effect.cached(
      Effect.flatMap(server, ({ open }) => open({ session })).pipe(Scope.extend(scope))
    )
    const stopReason = yield* drive(task, session, endpoint).pipe(Effect.provide(context))
    const sealed = yield* session.seal(stopReason)
    const info = yield* Reward.evaluate(() => options.info?.(task) ?? {}).pipe(blame("task", "its info"))
    const scoringMs = clock.unsafeCurrentTimeMillis()
    const { metrics, reward, rewards } = yield* scored(task, answerOf(sealed, stopReason, place))
    const trace: Trace.Trace = {
      ...sealed,
      spans: [
        { name: "setup", startMs: 0, endMs: setUpMs - beganMs },
        ...(sealed.spans ?? []),
        { name: "scoring", startMs: scoringMs - beganMs, endMs: clock.unsafeCurrentTimeMillis() - beganMs }
      ]
    }
    if (!Number.isFinite(reward)) return absent(planned, { _tag: "NoReward", reward })
    const rollout: Rollout = {
      ...planned,
      _tag: "Rollout",
      trace,
      info,
      temperature: given.sampling?.temperature ?? 1,
      reward,
      rewards,
      metrics: { drift: Trace.drift(trace), ...metrics },
      stopReason
    }
    return rollout
  })

  const run: Environment["run"] = (planned, given) => {
    const work = Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const exit = yield* Effect.exit(restore(attempt(planned, given, scope)))
        // What the rollout came to stands, whatever its runtime does on the way out.
        yield* Scope.close(scope, exit).pipe(
          Effect.catchAllCause((cause) => Effect.logWarning(`runtime of ${planned.id} not cleaned up: ${why(cause)}`))
        )
        return yield* exit
      })
    ).pipe(
      Effect.catchAll(({ blame, reason }) =>
        Effect.succeed(absent(planned, { _tag: "Failed", blame, message: reason }))
      )
    )
    return given.cancelled === undefined
      ? work
      : Effect.raceFirst(
          work,
          Effect.map(given.cancelled, (why) => absent(planned, { _tag: "Cancelled", why }))
        )
  }

  return { name, harness: harness.name, examples: taskset, run }
}

/** Key of an example by its place in the order of training, or of evaluation; the order goes round. @category examples */
export const exampleKey = (environment: Environment, index: number, split: Taskset.Split = "train"): string =>
  environment.examples.keyAt(split, index)

const isEnded = (value: unknown): value is Ended =>
  Predicate.isTagged(value, "Rollout") || Predicate.isTagged(value, "Absent")

/**
 * Runs one planned rollout to its one end. Never fails: what breaks is an `Absent` that says who is to blame. An
 * interruption stops the work at once and ends as `Cancelled`; a caller that journals ends in the same uninterruptible
 * region therefore loses none.
 *
 * @category running
 */
export const rollout = (
  environment: Environment,
  planned: Planned,
  options: RolloutOptions
): Effect.Effect<Ended, never, Inference | Renderer> =>
  made("run", () => environment.run(planned, options)).pipe(
    Effect.filterOrDieMessage(isEnded, "its run gave no rollout and no absence"),
    Effect.tap((ended) => {
      const { id } = ended._tag === "Absent" ? ended.planned : ended
      return id === planned.id
        ? Effect.void
        : Effect.dieMessage(`its run gave rollout ${inWords(id)}, and was asked for ${planned.id}`)
    }),
    Effect.withSpan("Environment.rollout", { attributes: { rollout: planned.id, environment: environment.name } }),
    Effect.interruptible,
    Effect.catchAllCause((cause) =>
      Effect.map(FiberRef.get(FiberRef.interruptedCause), (fromOutside) =>
        absent(
          planned,
          Cause.isInterruptedOnly(cause) && !Cause.isEmpty(fromOutside)
            ? { _tag: "Cancelled", why: "shutdown" }
            : { _tag: "Failed", blame: "environment", message: why(cause) }
        )
      )
    ),
    Effect.uninterruptible
  )
