/** The matrices of a layer that an adapter can change, by PEFT's names. @category constants */
export const projections = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const

/** @category model */
export type Projection = (typeof projections)[number]

/** The part of a layer that it belongs to. @category getters */
export const partOf = (projection: Projection): "self_attn" | "mlp" =>
  projection === "gate_proj" || projection === "up_proj" || projection === "down_proj" ? "mlp" : "self_attn"
