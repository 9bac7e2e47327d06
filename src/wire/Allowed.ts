/** What a schema allows at a place of a body, in words. A union that is described is one thing, whatever its members say. */
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"

/** @category model */
export type Path = ReadonlyArray<string | number>

const description = AST.getDescriptionAnnotation

const isNull = (ast: AST.AST) => ast._tag === "Literal" && ast.literal === null

/** Without what only says that it may be null or was something else before. */
const bare = (ast: AST.AST): AST.AST => {
  if (Option.isSome(description(ast))) return ast
  if (ast._tag === "Transformation") return bare(ast.from)
  if (ast._tag !== "Union") return ast
  const others = ast.types.filter((type) => !isNull(type))
  return others.length === 1 ? bare(others[0]!) : ast
}

const inside = (ast: AST.AST, key: string | number): AST.AST | undefined => {
  if (ast._tag === "TypeLiteral") return ast.propertySignatures.find(({ name }) => name === key)?.type
  return ast._tag === "TupleType" && typeof key === "number" ? ast.rest[0]?.type : undefined
}

const inWords = (ast: AST.AST): string => {
  switch (ast._tag) {
    case "TypeLiteral":
      return "an object"
    case "TupleType":
      return "a list"
    case "BooleanKeyword":
      return "true or false"
    case "Literal":
      return JSON.stringify(ast.literal)
    case "Union":
      return ast.types.map(inWords).join(" or ")
    default:
      return "another value"
  }
}

/** The innermost place on the way to `path` that the schema describes. @category getters */
export const at = (
  schema: Schema.Schema.AnyNoContext,
  path: Path
): { readonly path: Path; readonly allowed: string; readonly keys: ReadonlyArray<string> } => {
  let ast = bare(schema.ast)
  let depth = 0
  while (depth < path.length) {
    const next = inside(ast, path[depth]!)
    if (next === undefined) break
    ast = bare(next)
    depth++
  }
  return {
    path: path.slice(0, depth),
    allowed: Option.getOrElse(description(ast), () => inWords(ast)),
    keys: ast._tag === "TypeLiteral" ? ast.propertySignatures.map(({ name }) => String(name)) : []
  }
}
