/** What stands where something else should, in the words of a report. */

/** A value in the words of a report. */
export const found = (value: unknown): string => {
  if (Array.isArray(value)) return "a list"
  if (typeof value === "string" || typeof value === "boolean") return JSON.stringify(value)
  if (typeof value === "number" || value instanceof Date) return String(value)
  return "a table"
}
