/**
 * The deterministic test kit, `primerl/testing`: rollouts made by hand, an algorithm run over them, and a layer for every
 * service that needs no weights, no engine and no disk.
 */
export { layerMock as layerInference } from "../inference/Mock.ts"
export { layerMemory as layerJournal } from "../Journal.ts"
export { layer as layerPermits } from "../Permits.ts"
export { layer as layerState } from "../State.ts"
export { layerMock as layerTrainer } from "../Trainer/Mock.ts"
export { layerMock as layerPackedLoss } from "../Trainer/PackedLoss.ts"
export * from "./byteChat.ts"
export * from "./clock.ts"
export * from "./Explanation.ts"
export * from "./environment.ts"
export * from "./explain.ts"
export * from "./policy.ts"
export * from "./properties.ts"
export * from "./rollouts.ts"
export * from "./scoring.ts"
export * from "./table.ts"
export * from "./teachers.ts"
export * from "./traces.ts"
