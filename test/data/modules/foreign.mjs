const TypeId = Symbol.for("primerl/Algorithm/Definition")

export default { [TypeId]: { contract: 1, effect: "4.0.0" }, type: "foreign" }
