/**
 * Conversations of every shape with an engine that answers by chance: callers that go on, go back, start anew, rewrite
 * their history, ask again, ask at the same time, and turns that fail. It keeps what the engine saw.
 */
import * as Either from "effect/Either"
import * as FastCheck from "effect/FastCheck"
import type * as Message from "../../src/Message.ts"
import * as Trace from "../../src/Trace.ts"

/** What happens next; `pick` chooses among what there is, `ids` are the engine's and the tokenizer's chance. */
export interface Step {
  readonly kind:
    | "go on"
    | "render"
    | "drift"
    | "go back"
    | "root"
    | "compact"
    | "again"
    | "replace"
    | "fail"
    | "at once"
  readonly pick: number
  readonly ids: ReadonlyArray<number>
  readonly completion: ReadonlyArray<number>
  readonly closing: boolean
}

export const steps = FastCheck.array(
  FastCheck.record<Step>({
    kind: FastCheck.constantFrom(
      ...(["go on", "go on", "render", "drift", "go back", "root", "compact"] as const),
      ...(["again", "replace", "fail", "at once"] as const)
    ),
    pick: FastCheck.nat(1000),
    ids: FastCheck.array(FastCheck.integer({ min: 0, max: 5 }), { maxLength: 4 }),
    completion: FastCheck.array(FastCheck.integer({ min: 10, max: 14 }), { minLength: 1, maxLength: 4 }),
    closing: FastCheck.boolean()
  }),
  { minLength: 1, maxLength: 12 }
)

/** A turn that the engine answered: all that it saw and sampled, and where it lies. */
export interface Seen {
  readonly node: number
  readonly promptIds: ReadonlyArray<number>
  readonly completionIds: ReadonlyArray<number>
  readonly closingIds: ReadonlyArray<number>
  readonly replaced: boolean
}

interface Said {
  readonly message: Message.Message
  readonly ids: ReadonlyArray<number>
}
/** A conversation as its caller holds it, with the ids that it was last seen as. */
type History = ReadonlyArray<Said>

const END = 99
const PROMPT = 77
const system: Said = { message: { role: "system", content: "S" }, ids: [50, 51] }
const said = (content: string, ids: ReadonlyArray<number>): Said => ({ message: { role: "user", content }, ids })

const turnOf = (
  history: History,
  step: Step,
  answer: Message.AssistantMessage,
  more: Partial<Trace.Turn> = {}
): Trace.Turn => {
  const body = history.flatMap(({ ids }, index) => ids.map((id) => ({ id, index })))
  const prompt = [...body, { id: PROMPT, index: -1 }]
  return {
    promptIds: Int32Array.from(prompt, ({ id }) => id),
    messageIndices: prompt.map(({ index }) => index),
    isContent: prompt.map(({ index }) => (index === -1 ? 0 : 1)),
    completionIds: Int32Array.from(step.completion),
    logprobs: step.completion.map((id) => -id / 8),
    closingIds: Int32Array.from(step.closing ? [END] : []),
    policyVersion: step.pick,
    message: answer,
    ...more
  }
}

/** Plays the steps. `seen` is in the order of the calls. */
export const play = (all: ReadonlyArray<Step>): { readonly trace: Trace.Trace; readonly seen: ReadonlyArray<Seen> } => {
  let trace = Trace.empty
  const seen: Array<Seen> = []
  const histories: Array<History> = []
  /** prompts that were answered, with the answer */
  const asked: Array<{ readonly history: History; readonly node: number }> = []

  const commit = (pending: Trace.PendingTurn, history: History, turn: Trace.Turn) => {
    const { replaces } = turn
    trace = Either.getOrThrow(Trace.commit({ ...pending, trace }, turn))
    const node = trace.nodes.length - 1
    const closingIds = Array.from(turn.closingIds ?? [])
    const at = seen.findIndex((one) => one.node === replaces)
    if (at !== -1) seen[at] = { ...seen[at]!, replaced: true }
    seen.push({
      node,
      promptIds: Array.from(turn.promptIds),
      completionIds: Array.from(turn.completionIds),
      closingIds,
      replaced: false
    })
    asked.push({ history, node })
    histories.push([...history, { message: turn.message, ids: [PROMPT, ...turn.completionIds, ...closingIds] }])
  }
  const messagesOf = (history: History) => history.map(({ message }) => message)
  const ask = (history: History, step: Step, number: number, more: Partial<Trace.Turn> = {}) =>
    commit(
      Trace.prepare(trace, messagesOf(history)),
      history,
      turnOf(history, step, { role: "assistant", content: `a${number}` }, more)
    )

  for (const [number, step] of all.entries()) {
    const { ids, kind, pick } = step
    const history = histories[pick % Math.max(1, histories.length)]
    const earlier = asked[pick % Math.max(1, asked.length)]
    const next = said(`u${number}`, ids)
    if (history === undefined || earlier === undefined || kind === "root") {
      ask([...(pick % 2 === 0 ? [system] : []), said(`task ${number}`, ids)], step, number)
    } else if (kind === "go on") {
      // As a bridge does: ids of the prefix without a word of whose they are, then the new message.
      const whole = [...history, next]
      const before = history.flatMap((one) => one.ids).length
      const turn = turnOf(whole, step, { role: "assistant", content: `a${number}` })
      const pending = Trace.prepare(trace, messagesOf(whole))
      const bridged = pending.prefix.length === history.length
      commit(
        pending,
        whole,
        bridged
          ? {
              ...turn,
              bridged,
              messageIndices: Array.from(turn.messageIndices, (_, i) =>
                i < before ? -1 : i < before + ids.length ? 0 : -1
              )
            }
          : turn
      )
    } else if (kind === "render") ask([...history, next], step, number)
    else if (kind === "drift") {
      const last = history.at(-1)!
      ask([...history.slice(0, -1), { ...last, ids: [...last.ids.slice(1), 88] }, next], step, number)
    } else if (kind === "go back") {
      ask([...history.slice(0, pick % (history.length + 1)), next], step, number)
    } else if (kind === "compact") ask([...history.slice(0, 1), said(`notes ${number}`, ids)], step, number)
    else if (kind === "again") ask(earlier.history, step, number)
    else if (kind === "replace") {
      const isLeaf = !trace.nodes.some(({ parent }) => parent === earlier.node)
      const replaces = isLeaf && trace.nodes[earlier.node]!.sampled ? earlier.node : undefined
      const found = histories.findIndex(
        (one) => one.length === earlier.history.length + 1 && one.slice(0, -1).every((s, i) => s === earlier.history[i])
      )
      // Nobody goes on from an answer that nobody got.
      if (replaces !== undefined && found !== -1) histories.splice(found, 1, earlier.history)
      ask(earlier.history, step, number, { replaces })
    } else if (kind === "fail") {
      const broken = turnOf([...history, next], step, { role: "assistant", content: "no" }, { logprobs: [] })
      const before = trace
      const result = Trace.commit(Trace.prepare(trace, messagesOf([...history, next])), broken)
      if (Either.isRight(result) || trace !== before) throw new Error("a turn without log-probabilities was taken")
    } else {
      // Two requests with one prompt, both prepared before either is answered.
      const whole = [...history, next]
      const pending = Trace.prepare(trace, messagesOf(whole))
      for (const one of ["x", "y"]) {
        commit(pending, whole, turnOf(whole, step, { role: "assistant", content: `a${number}${one}` }))
      }
    }
  }
  return { trace, seen }
}
