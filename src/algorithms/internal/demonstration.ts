/** What self-distillation shows the policy: a demonstration of the task at hand, in a sentence around it. */
import * as Data from "effect/Data"
import * as Schema from "effect/Schema"
import type { Rollout } from "../../Rollout.ts"

const place = "{demonstration}"

/** The words around a demonstration; `{demonstration}` stands for it. */
export const Template = Schema.optionalWith(
  Schema.String.pipe(
    Schema.filter((text) => text.includes(place) || `it must hold ${place}, where the demonstration goes`)
  ),
  {
    exact: true,
    default: () =>
      `Here is a good answer to what you are asked next. Learn from it how to answer, then give an answer of your own.\n\n${place}`
  }
)

/** A rollout whose task says nothing under the key. */
export class NoDemonstration extends Data.TaggedError("NoDemonstration")<{
  readonly key: string
  readonly given: ReadonlyArray<string>
}> {
  override get message() {
    const given = this.given.length === 0 ? "nothing" : this.given.map((key) => `"${key}"`).join(", ")
    return `its task has no text under info "${this.key}" (it has ${given}): give one with \`info\` in Environment.make, or name another key with demo_key`
  }
}

/** What the task says under `key`. Throws `NoDemonstration` when that is nothing. */
export const demonstrationOf = ({ info }: Rollout, key: string): string => {
  const demonstration = Object.hasOwn(info, key) ? info[key] : undefined
  if (demonstration === undefined || demonstration === "") throw new NoDemonstration({ key, given: Object.keys(info) })
  return demonstration
}

/** The template with the demonstration in its place. */
export const withDemonstration = (template: string, demonstration: string): string =>
  template.replaceAll(place, () => demonstration)
