/** The smaller of limits that may be absent. */

/** @category numbers */
export const least = (...limits: ReadonlyArray<number | null | undefined>): number | undefined => {
  const given = limits.filter((limit) => limit != null)
  return given.length === 0 ? undefined : Math.min(...given)
}
