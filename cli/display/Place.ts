/** Paths in commands that are there to be copied: as short as they can be from here, and safe in a shell. */
import { relative } from "node:path"

/** Relative to the working directory where that is shorter. @category conversions */
export const shorter = (path: string, from = process.cwd()): string => {
  const there = relative(from, path) || "."
  return there.length < path.length ? there : path
}

/** As one word of a shell's command. @category conversions */
export const quoted = (path: string): string =>
  /^[\w./@%+=:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
