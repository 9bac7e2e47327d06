/** Server-sent events as text. */

/** One event; its data must be one line, as JSON is. @category conversions */
export const frame = (data: string, event?: string | undefined): string =>
  event === undefined ? `data: ${data}\n\n` : `event: ${event}\ndata: ${data}\n\n`

/** Keeps a connection alive; clients pass over it. @category conversions */
export const comment = (text: string): string => `: ${text}\n\n`
