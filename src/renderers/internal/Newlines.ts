/**
 * Takes the line breaks off a text that a format puts around it, while the text arrives: no more at the start and at
 * the end than the format added, so that a message's own line breaks survive.
 */

/** @category model */
export interface Newlines {
  /** the part of the text so far that is certain */
  readonly push: (text: string) => string
  /** the rest: with the line breaks at the end, or without when the format added them */
  readonly end: (options: { readonly trim: boolean }) => string
}

const count = (pattern: RegExp, text: string): number => pattern.exec(text)?.[0].length ?? 0

/** @category constructors */
export const make = (most: { readonly leading: number; readonly trailing: number }): Newlines => {
  let leading = most.leading
  let held = ""
  return {
    push: (text) => {
      const dropped = Math.min(leading, count(/^\n*/, text))
      leading = dropped < text.length ? 0 : leading - dropped
      const whole = held + text.slice(dropped)
      const kept = whole.length - Math.min(most.trailing, count(/\n*$/, whole))
      held = whole.slice(kept)
      return whole.slice(0, kept)
    },
    end: ({ trim }) => {
      const rest = trim ? "" : held
      held = ""
      return rest
    }
  }
}
