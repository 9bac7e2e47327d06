/**
 * Finds the first of several stop texts while a text arrives. What may yet become one is held back, so that nothing is
 * sent that a stop takes away.
 */

/** @category model */
export interface Stops {
  /** `cut`: characters from the start of the stop text to the end of what has arrived; `held`: how many may not be sent yet */
  readonly push: (text: string) => { readonly stop: string; readonly cut: number } | { readonly held: number }
}

/** The longest end of `text` that some stop begins with. */
const openEnd = (text: string, stops: ReadonlyArray<string>, longest: number): number => {
  for (let length = Math.min(longest - 1, text.length); length > 0; length--) {
    const end = text.slice(text.length - length)
    if (stops.some((stop) => stop.startsWith(end))) return length
  }
  return 0
}

/** @category constructors */
export const make = (stops: ReadonlyArray<string>): Stops => {
  const longest = Math.max(0, ...stops.map((stop) => stop.length))
  /** as much of the text as a stop can still begin in */
  let recent = ""
  return {
    push: (text) => {
      if (longest === 0) return { held: 0 }
      recent += text
      let first: { readonly stop: string; readonly at: number } | undefined
      for (const stop of stops) {
        const at = recent.indexOf(stop)
        if (at >= 0 && (first === undefined || at < first.at)) first = { stop, at }
      }
      if (first !== undefined) return { stop: first.stop, cut: recent.length - first.at }
      const held = openEnd(recent, stops, longest)
      recent = recent.slice(recent.length - held)
      return { held }
    }
  }
}
