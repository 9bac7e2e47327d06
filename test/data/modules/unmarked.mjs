export default { [Symbol.for("primerl/Algorithm/Definition")]: null }
