/**
 * One rollout's messages as an append-only graph. A node stores only the tokens that it adds, so that the ids along a
 * path are exactly the prompt and completion ids of the turns that made it.
 */
export * from "./trace/branches.ts"
export { type Named, parse, stringify, TraceFileError, VERSION } from "./trace/codec.ts"
export * from "./trace/loose.ts"
export * from "./trace/measures.ts"
export * from "./trace/model.ts"
export * from "./trace/turns.ts"
