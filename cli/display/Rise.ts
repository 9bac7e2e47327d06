/** How a value went over a whole run, in one line. */
import { fixed } from "./Numbers.ts"

const mean = (values: ReadonlyArray<number>, digits: number): string =>
  fixed(values.reduce((sum, value) => sum + value, 0) / values.length, digits)

/**
 * The mean of the first five steps and that of the last five; of so few that both are the same steps, one mean. Nothing
 * where there are none.
 *
 * @category rendering
 */
export const rise = (name: string, values: ReadonlyArray<number>, digits: number): ReadonlyArray<string> => {
  if (values.length === 0) return []
  if (values.length === 1) return [`${name}: ${mean(values, digits)} in one step`]
  if (values.length <= 5) return [`${name}: mean of ${values.length} steps ${mean(values, digits)}`]
  return [`${name}: first 5 steps ${mean(values.slice(0, 5), digits)}, last 5 steps ${mean(values.slice(-5), digits)}`]
}
