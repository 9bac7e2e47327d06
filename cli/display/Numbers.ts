/** Numbers as short text of a predictable width. What is not finite is shown as it is, never as 0. */

const special = (value: number): string | undefined => {
  if (Number.isNaN(value)) return "nan"
  if (Number.isFinite(value)) return undefined
  return value > 0 ? "inf" : "-inf"
}

/** @category conversions */
export const fixed = (value: number, digits: number): string =>
  special(value) ?? (Object.is(Number(value.toFixed(digits)), -0) ? 0 : value).toFixed(digits)

/** With its sign, `+` for zero and above. @category conversions */
export const signed = (value: number, digits: number): string => {
  const text = fixed(value, digits)
  return value >= 0 || Number(text) === 0 ? `+${text}` : text
}

/** Four decimals where they say something, else an exponent: at most 8 characters. @category conversions */
export const short = (value: number): string => {
  const size = Math.abs(value)
  return value === 0 || (size >= 1e-3 && size < 1000) ? fixed(value, 4) : (special(value) ?? value.toExponential(1))
}

/** `950`, `12.3k`, `4.56M`. @category conversions */
export const large = (value: number): string => {
  if (Math.abs(value) < 1000) return fixed(value, 0)
  const [divisor, unit] = Math.abs(value) < 1e6 ? [1e3, "k"] : Math.abs(value) < 1e9 ? [1e6, "M"] : [1e9, "G"]
  const scaled = value / divisor
  return special(value) ?? `${scaled.toFixed(Math.abs(scaled) < 10 ? 2 : Math.abs(scaled) < 100 ? 1 : 0)}${unit}`
}

/** `0:07`, `12:03`, `1:02:03`. @category conversions */
export const duration = (milliseconds: number): string => {
  const seconds = Math.max(0, Math.round(milliseconds / 1000))
  const two = (value: number) => String(value).padStart(2, "0")
  const minutes = Math.floor(seconds / 60)
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`
}

/** `failed 2, late 1`, or nothing. @category conversions */
export const counts = (counted: Readonly<Record<string, number>>): string =>
  Object.entries(counted)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${count}`)
    .join(", ")
