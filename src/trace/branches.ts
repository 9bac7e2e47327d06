/** What a trace says along its paths. */
import type * as Message from "../Message.ts"
import { concat } from "./concat.ts"
import type { Node, Trace } from "./model.ts"

/** A path from a root to a leaf. @category branches */
export interface Branch {
  /** node indices, root first */
  readonly path: ReadonlyArray<number>
  /** the first `shared` nodes of the path also lie on an earlier branch, which is the one that trains them */
  readonly shared: number
}

/** Every root-to-leaf path, in the order in which the leaves were added; an abandoned answer lies on none. @category branches */
export const branches = ({
  nodes
}: {
  readonly nodes: ReadonlyArray<Pick<Node, "parent" | "abandoned">>
}): ReadonlyArray<Branch> => {
  const isOnePath = nodes.every(({ abandoned, parent }, i) => !abandoned && parent === (i === 0 ? undefined : i - 1))
  if (isOnePath) return nodes.length === 0 ? [] : [{ path: nodes.map((_, index) => index), shared: 0 }]
  const isParent: Array<boolean> = nodes.map(() => false)
  for (const { abandoned, parent } of nodes) if (parent !== undefined && abandoned !== true) isParent[parent] = true
  const seen: Array<boolean> = nodes.map(() => false)
  const found: Array<Branch> = []
  for (let leaf = 0; leaf < nodes.length; leaf++) {
    if (isParent[leaf] || nodes[leaf]!.abandoned === true) continue
    const path: Array<number> = []
    for (let at: number | undefined = leaf; at !== undefined; at = nodes[at]!.parent) path.push(at)
    path.reverse()
    const own = path.findIndex((node) => !seen[node])
    for (const node of path) seen[node] = true
    found.push({ path, shared: own })
  }
  return found
}

/** The ids a model sees along a branch. @category branches */
export const tokenIds = ({ nodes }: Trace, { path }: Branch): Int32Array =>
  concat(path.map((node) => nodes[node]!.tokenIds))

/** Messages along a branch. @category branches */
export const messages = ({ nodes }: Trace, { path }: Branch): ReadonlyArray<Message.Message> =>
  path.map((node) => nodes[node]!.message)

/** Number of model calls whose answer reached its caller. @category branches */
export const turns = ({ nodes }: Trace): number => nodes.reduce((count, node) => count + (node.sampled ? 1 : 0), 0)

/** Text of the last sampled message; "" when there is none or it holds only tool calls. @category branches */
export const lastReply = ({ nodes }: Trace): string => {
  const last = nodes.findLast((node) => node.sampled)
  return last?.message.content ?? ""
}
