import { describe, expect, it } from "vitest"
import { memberTexts } from "../../src/renderers/internal/jsonText.ts"
import { pythonJson } from "../../src/renderers/internal/pythonJson.ts"

describe("JSON as Python writes it", () => {
  const value = { b: 1, a: [1, 2], u: "é/" }

  it("REND-10: spaces after separators, keys in order, characters as they are; options are honoured", () => {
    expect(pythonJson(value)).toBe('{"b": 1, "a": [1, 2], "u": "é/"}')
    expect(pythonJson(value, { ensureAscii: true })).toBe('{"b": 1, "a": [1, 2], "u": "\\u00e9/"}')
    expect(pythonJson("😀", { ensureAscii: true })).toBe('"\\ud83d\\ude00"')
    expect(pythonJson(value, { sortKeys: true })).toBe('{"a": [1, 2], "b": 1, "u": "é/"}')
    expect(pythonJson(value, { separators: [",", ":"] })).toBe('{"b":1,"a":[1,2],"u":"é/"}')
    expect(pythonJson({ a: [1, { b: [] }], c: {} }, { indent: 2 })).toBe(
      '{\n  "a": [\n    1,\n    {\n      "b": []\n    }\n  ],\n  "c": {}\n}'
    )
  })

  it("numbers, nothing and absent members", () => {
    expect(pythonJson([1e-7, 0.00001, 0.0001, 1.5, -3, 1e21, true, null])).toBe(
      "[1e-07, 1e-05, 0.0001, 1.5, -3, 1e+21, true, null]"
    )
    expect(pythonJson({ a: undefined, b: null })).toBe('{"b": null}')
  })
})

it("members keep the spelling they were written with", () => {
  const text = '{ "a" : {"x":1.0, "y": [9007199254740993, "}, \\" ,"]} , "n\\u0061me": "f", "a": 1.50 }'
  expect(memberTexts(text)).toEqual([
    ["a", '{"x":1.0, "y": [9007199254740993, "}, \\" ,"]}'],
    ["name", '"f"'],
    ["a", "1.50"]
  ])
  expect(memberTexts('{"arguments": {"k": "a:b,{"}}')).toEqual([["arguments", '{"k": "a:b,{"}']])
  expect(memberTexts('{"a":1 , "b" : "x" ,"c":[ ],"\\n\\u00e9":null}')).toEqual([
    ["a", "1"],
    ["b", '"x"'],
    ["c", "[ ]"],
    ["\né", "null"]
  ])
  expect(memberTexts("{}")).toEqual([])
})
