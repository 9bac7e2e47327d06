/** The one model of a rollout, as a list of models. */
import * as DateTime from "effect/DateTime"
import type { Dialect } from "./Dialect.ts"
import * as Messages from "./messages/Messages.ts"

interface Model {
  readonly model: string
  /** seconds since 1970 */
  readonly created: number
}

/** The answer to `GET /models`, and to `GET /models/NAME`, whatever the name. @category answers */
export const answer = (
  { created, model }: Model,
  options: { readonly dialect: Dialect; readonly one: boolean }
): object => {
  if (options.dialect === Messages.dialect) {
    const entry = {
      type: "model",
      id: model,
      display_name: model,
      created_at: DateTime.formatIso(DateTime.unsafeMake(created * 1000))
    }
    return options.one ? entry : { data: [entry], has_more: false, first_id: model, last_id: model }
  }
  const entry = { id: model, object: "model", created, owned_by: "primerl" }
  return options.one ? entry : { object: "list", data: [entry] }
}
