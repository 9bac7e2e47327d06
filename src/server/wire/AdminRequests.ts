/** The bodies of the admin routes. */
import * as Schema from "effect/Schema"
import * as Fields from "./Fields.ts"

/** @category schemas */
export const UpdateWeightsRequest = Schema.Struct({ weight_dir: Fields.name })

/** @category schemas */
export const LoadAdapterRequest = Schema.Struct({
  lora_name: Fields.name,
  lora_path: Fields.name,
  /** an adapter of the same name is always replaced */
  load_inplace: Fields.ignored
})

/** @category schemas */
export const UnloadAdapterRequest = Schema.Struct({ lora_name: Fields.name, lora_int_id: Fields.ignored })
