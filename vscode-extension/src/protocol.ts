/** Re-export of the generated wire contract, so that contract drift is a type error. Declare nothing here. */
export * from "../../protocol/protocol.gen.ts";
