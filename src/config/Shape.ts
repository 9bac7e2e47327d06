/** What a schema accepts, in words and as tables of keys: read from the schema itself, never written twice. */
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as AST from "effect/SchemaAST"
import { ResolvesAgainst } from "./Field.ts"
import type { KeyPath } from "./Located.ts"

/** @category model */
export interface TableShape {
  readonly _tag: "Table"
  readonly keys: ReadonlyMap<string, { readonly shape: Shape; readonly optional: boolean; readonly doc: string }>
  /** takes keys that are not listed */
  readonly open: boolean
  /** words that may stand in place of the table */
  readonly choices: ReadonlyArray<string>
}
/** @category model */
export interface ListShape {
  readonly _tag: "List"
  readonly item: Shape
}
/** @category model */
export interface ValueShape {
  readonly _tag: "Value"
  readonly allowed: string
  readonly choices: ReadonlyArray<string>
  readonly resolves: ResolvesAgainst | undefined
}
/** @category model */
export type Shape = TableShape | ListShape | ValueShape

const annotation = (ast: AST.AST, id: symbol): unknown => ast.annotations[id]

const value = (ast: AST.AST, allowed: string, choices: ReadonlyArray<string> = []): ValueShape => ({
  _tag: "Value",
  allowed: Option.getOrElse(AST.getDescriptionAnnotation(ast), () => allowed),
  choices,
  resolves: annotation(ast, ResolvesAgainst) as ResolvesAgainst | undefined
})

const ofAst = (ast: AST.AST): Shape => {
  switch (ast._tag) {
    case "Transformation":
      return ofAst(ast.from)
    case "Refinement":
      return value(ast, "another value")
    case "TypeLiteral": {
      const keys = ast.propertySignatures.map(
        (signature) =>
          [
            String(signature.name),
            {
              shape: ofAst(signature.type),
              optional: signature.isOptional,
              doc: String(annotation(signature.type, AST.DocumentationAnnotationId) ?? "")
            }
          ] as const
      )
      return { _tag: "Table", keys: new Map(keys), open: ast.indexSignatures.length > 0, choices: [] }
    }
    case "TupleType": {
      const item = ast.rest[0]
      return item === undefined ? value(ast, "an empty list") : { _tag: "List", item: ofAst(item.type) }
    }
    case "Union": {
      const choices = ast.types.flatMap((type) => (type._tag === "Literal" ? [String(type.literal)] : []))
      const table = ast.types.map(ofAst).find((shape) => shape._tag === "Table")
      if (table !== undefined) return { ...table, choices }
      return value(ast, `one of ${choices.map((choice) => JSON.stringify(choice)).join(", ")}`, choices)
    }
    case "Literal":
      return value(ast, JSON.stringify(ast.literal), [String(ast.literal)])
    case "BooleanKeyword":
      return value(ast, "true or false")
    default:
      return value(ast, "any value")
  }
}

/** @category constructors */
export const make = <A, I>(schema: Schema.Schema<A, I>): Shape => ofAst(schema.ast)

/** @category getters */
export const at = (root: Shape, path: KeyPath): Shape | undefined => {
  let here: Shape | undefined = root
  for (const key of path) {
    if (here?._tag === "Table") here = here.keys.get(String(key))?.shape
    else if (here?._tag === "List") here = here.item
    else return undefined
  }
  return here
}

/** Every table a key may be written in, by that key; items of lists only where no plain table has it. @category getters */
export const tablesByKey = (root: Shape): ReadonlyMap<string, ReadonlyArray<KeyPath>> => {
  const plain = new Map<string, Array<KeyPath>>()
  const inLists = new Map<string, Array<KeyPath>>()
  const visit = (shape: Shape, path: KeyPath, into: Map<string, Array<KeyPath>>): void => {
    if (shape._tag === "List") visit(shape.item, path, inLists)
    if (shape._tag !== "Table") return
    for (const [key, inner] of shape.keys) {
      into.set(key, [...(into.get(key) ?? []), path])
      visit(inner.shape, [...path, key], into)
    }
  }
  visit(root, [], plain)
  return new Map([...inLists, ...plain])
}
