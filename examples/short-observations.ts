import type { Rollout, Trace } from "primerl"

/** Leaves out what is longer than the option says. */
export default (message: Trace.Node, _rollout: Rollout.Rollout, kwargs: { readonly longest: number }) =>
  message.tokenIds.length <= kwargs.longest
