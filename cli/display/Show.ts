/**
 * Shows a run as it goes: plain lines where lines are all there is, and below them, on a terminal, a bar and a chart that
 * are drawn over. However the run ends, the cursor is visible again and the terminal's last line is complete.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Ref from "effect/Ref"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import { Output, type OutputService } from "../Output.ts"
import { chartLines, type Display, liveLines, type State, type Step, stepLines } from "./Display.ts"
import * as LiveRegion from "./LiveRegion.ts"

/** Prints the newest step, and the header when it is not the one that stands above. */
const newest = <A extends Step>(
  display: Display<A>,
  reports: ReadonlyArray<A>,
  columns: number,
  output: OutputService,
  above: Ref.Ref<string>
): Effect.Effect<ReadonlyArray<string>> =>
  Effect.gen(function* () {
    const { header, lines } = stepLines(display, reports, columns, output)
    const before = yield* Ref.getAndSet(above, header)
    return before === header ? lines : [header, ...lines]
  })

/** wide enough for every column: what reads a pipe has no width */
const pipeColumns = 200

const showPlain = <A extends Step, E, R>(display: Display<A>, reports: Stream.Stream<A, E, R>, output: OutputService) =>
  Effect.gen(function* () {
    const above = yield* Ref.make("")
    const all: Array<A> = []
    yield* Stream.runForEach(reports, (report) => {
      all.push(report)
      return newest(display, all, pipeColumns, output, above).pipe(
        Effect.map((lines) => [...lines, ...(display.parts?.(report) ?? [])]),
        Effect.flatMap((lines) => output.write(lines.map((line) => `${line}\n`).join("")))
      )
    })
    yield* output.write(
      display
        .ending(all)
        .map((line) => `${line}\n`)
        .join("")
    )
  })

const showLive = <A extends Step, E, R>(
  display: Display<A>,
  steps: number,
  reports: Stream.Stream<A, E, R>,
  output: OutputService
) =>
  Effect.gen(function* () {
    const above = yield* Ref.make("")
    const all: Array<A> = []
    const startedMs = yield* Clock.currentTimeMillis
    let region = LiveRegion.empty
    const draw = (report: A | undefined) =>
      Effect.gen(function* () {
        const size = yield* output.size
        const nowMs = yield* Clock.currentTimeMillis
        if (report !== undefined) all.push(report)
        const permanent = report === undefined ? [] : yield* newest(display, all, size.columns, output, above)
        const state: State<A> = { reports: all, steps, startedMs, nowMs }
        const drawn = LiveRegion.redraw(region, permanent, liveLines(display, state, size, output), size.columns)
        region = drawn.region
        yield* output.write(drawn.text)
      })
    const close = (completed: boolean) =>
      Effect.gen(function* () {
        const size = yield* output.size
        const state: State<A> = { reports: all, steps, startedMs, nowMs: startedMs }
        const rest = completed ? ["", ...chartLines(display, state, size, output), "", ...display.ending(all)] : []
        yield* output.write(`${LiveRegion.redraw(region, rest, [], size.columns).text}${LiveRegion.showCursor}`)
      })
    const redraws = Stream.merge(Stream.fromSchedule(Schedule.spaced("1 second")), output.resized).pipe(
      Stream.map(() => undefined)
    )
    yield* Effect.acquireUseRelease(
      output.write(LiveRegion.hideCursor).pipe(Effect.zipRight(draw(undefined))),
      () => Stream.runForEach(Stream.merge(reports, redraws, { haltStrategy: "left" }), draw),
      (_, exit) => close(exit._tag === "Success")
    )
  })

/**
 * Runs a stream of reports to its end and shows it. `steps` is the length of the run, known before its first report.
 *
 * @category running
 */
export const show = <A extends Step, E, R>(
  display: Display<A>,
  steps: number,
  reports: Stream.Stream<A, E, R>
): Effect.Effect<void, E, R | Output> =>
  Effect.flatMap(Output, (output) =>
    output.live ? showLive(display, steps, reports, output) : showPlain(display, reports, output)
  )
