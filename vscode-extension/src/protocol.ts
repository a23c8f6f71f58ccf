/** The contract with the sidecar: the generated file itself, so that a drift is a type error. Nothing is written here. */
export * from "../../protocol/protocol.gen.ts";
