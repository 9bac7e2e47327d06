/** What is asked for under the address of a rollout, and in which dialect an error is told. */
import type { IncomingHttpHeaders } from "node:http"
import * as Chat from "./chat/Chat.ts"
import type { Dialect } from "./Dialect.ts"
import * as Messages from "./messages/Messages.ts"
import * as Responses from "./responses/Responses.ts"

/** @category model */
export type Route =
  | { readonly _tag: "Turn" | "CountTokens"; readonly method: "POST"; readonly name: string; readonly dialect: Dialect }
  | { readonly _tag: "Models"; readonly method: "GET"; readonly name: string; readonly dialect: Dialect }

/** @category model */
export interface Target {
  /** names the rollout; says nothing of its secret */
  readonly rollout: string
  readonly path: string
  readonly route: Route | undefined
  readonly dialect: Dialect
}

const routes: ReadonlyMap<string, Route> = new Map(
  (
    [
      { _tag: "Turn", method: "POST", name: "chat/completions", dialect: Chat.dialect },
      { _tag: "Turn", method: "POST", name: "responses", dialect: Responses.dialect },
      { _tag: "Turn", method: "POST", name: "messages", dialect: Messages.dialect },
      { _tag: "CountTokens", method: "POST", name: "messages/count_tokens", dialect: Messages.counting }
    ] satisfies ReadonlyArray<Route>
  ).map((route) => [route.name, route])
)

/**
 * Clients disagree on whether a base URL ends with `/v1`: one that appends it to an address that has it already means the
 * same.
 *
 * @category matching
 */
export const match = (url: string, headers: IncomingHttpHeaders): Target => {
  const [path = ""] = url.split("?", 1)
  const [rollout = "", ...segments] = path.split("/").filter((segment) => segment !== "")
  while (segments[0] === "v1") segments.shift()
  const name = segments.join("/")
  const spoken = headers["anthropic-version"] === undefined ? Chat.dialect : Messages.dialect
  const route: Route | undefined =
    segments[0] === "models" ? { _tag: "Models", method: "GET", name, dialect: spoken } : routes.get(name)
  return { rollout, path, route, dialect: route?.dialect ?? spoken }
}

/** The key of a request, in the header of either vendor. @category matching */
export const keyOf = (headers: IncomingHttpHeaders): string | undefined => {
  const bearer = /^Bearer +(.+)$/i.exec(headers.authorization ?? "")?.[1]?.trim()
  const key = bearer ?? headers["x-api-key"]
  return typeof key === "string" && key !== "" ? key : undefined
}

/** Clients made from one generator say so when they ask again. @category matching */
export const isRetry = (headers: IncomingHttpHeaders): boolean => Number(headers["x-stainless-retry-count"] ?? 0) > 0
