/** How long to wait before a server is asked again. */

const firstMs = 1_000
const longestMs = 10_000

/** After this many failures in a row: 1 s, doubled each time, at most 10 s. @category constructors */
export const afterMs = (failures: number): number => Math.min(longestMs, firstMs * 2 ** (failures - 1))

/** The header Retry-After, in seconds or as a date; undefined when it says nothing that can be read. @category parsing */
export const retryAfterMs = (header: string | undefined, nowMs: number): number | undefined => {
  if (header === undefined) return undefined
  const ms = /^\s*\d+(\.\d+)?\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined
}
