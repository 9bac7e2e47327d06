/** The deterministic test kit, `primerl/testing`: rollouts made by hand, an algorithm run over them, and state in memory. */
export { layer as layerPermits } from "../Permits.ts"
export { layer as layerState } from "../State.ts"
export * from "./rollouts.ts"
export * from "./scoring.ts"
