const TypeId = Symbol.for("primerl/Algorithm/Definition")

export default { [TypeId]: { contract: 99, effect: "3.22.4" }, type: "newer" }
