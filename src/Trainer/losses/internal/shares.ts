/** Which shares of a sequence's members a loss treats otherwise. */

/** Each name with the share of members that its test holds for, of `count`; 0 when there are none. @category getters */
export const shares = (
  count: number,
  tests: Readonly<Record<string, (i: number) => boolean>>
): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(tests).map(([name, holds]) => {
      let found = 0
      for (let i = 0; i < count; i++) if (holds(i)) found++
      return [name, count === 0 ? 0 : found / count]
    })
  )
