import { describe, expect, it } from "@effect/vitest"
import * as Taskset from "../src/Taskset.ts"

const letters = Taskset.make({ name: "letters", tasks: [..."abcdefghij"], evalTasks: [..."xyz"], key: (task) => task })
const take = (taskset: Taskset.Taskset<unknown>, from: number, count: number, split: Taskset.Split = "train") =>
  Array.from({ length: count }, (_, i) => taskset.keyAt(split, from + i))

describe("a taskset", () => {
  it("goes round its examples, each split on its own", () => {
    expect(take(letters, 0, 12).join("")).toBe("abcdefghijab")
    expect(take(letters, 0, 7, "eval").join("")).toBe("xyzxyzx")
    expect(letters.size("train")).toBe(10)
    expect(letters.find("y")).toBe("y")
    expect(letters.find("q")).toBeUndefined()
  })

  it("gives the same key to an example whatever the order", () => {
    const plain = Taskset.make({ name: "numbers", tasks: [7, 8, 9] })
    const mixed = Taskset.shuffle(plain, 4)
    for (const key of take(mixed, 0, 3)) expect(mixed.find(key)).toBe(plain.find(key))
    expect(take(mixed, 0, 3).sort()).toEqual(take(plain, 0, 3))
  })

  it("without held-out tasks is evaluated on its tasks, under the same keys", () => {
    const plain = Taskset.make({ name: "numbers", tasks: [7, 8, 9] })
    expect(take(plain, 0, 3, "eval")).toEqual(take(plain, 0, 3, "train"))
  })

  it("is refused when it is empty or when two examples have one key", () => {
    expect(() => Taskset.make({ name: "none", tasks: [] })).toThrow("taskset none: it has no examples")
    expect(() => Taskset.make({ name: "none", tasks: [1], evalTasks: [] })).toThrow("evalTasks is empty")
    const twice = () => Taskset.make({ name: "twice", tasks: ["a"], evalTasks: ["a"], key: (task) => task })
    expect(twice).toThrow('two examples have the key "a"')
    expect(() => Taskset.head(letters, 0)).toThrow("first 0 examples")
  })

  it("head takes the first of each split and goes round them", () => {
    const few = Taskset.head(letters, 4)
    expect(take(few, 0, 6).join("")).toBe("abcdab")
    expect([few.size("train"), few.size("eval")]).toEqual([4, 3])
  })
})

describe("a shuffled taskset", () => {
  const mixed = Taskset.shuffle(letters, 7)

  it("takes every example once an epoch, in another order each epoch", () => {
    const epochs = [0, 1, 2].map((epoch) => take(mixed, epoch * 10, 10).join(""))
    for (const epoch of epochs) expect([...epoch].sort().join("")).toBe("abcdefghij")
    expect(new Set(epochs).size).toBe(3)
  })

  it("follows from its seed", () => {
    expect(take(Taskset.shuffle(letters, 7), 0, 25)).toEqual(take(mixed, 0, 25))
    expect(take(Taskset.shuffle(letters, 8), 0, 25)).not.toEqual(take(mixed, 0, 25))
  })

  it("CKPT-04: goes on after a restart exactly where it stopped, whatever was looked at in between", () => {
    const whole = take(mixed, 0, 100)
    expect([...take(mixed, 0, 30), ...take(Taskset.shuffle(letters, 7), 30, 70)]).toEqual(whole)
    expect([95, 3, 41, 3].map((position) => mixed.keyAt("train", position))).toEqual(
      [95, 3, 41, 3].map((position) => whole[position])
    )
  })

  it("keeps held-out examples in order", () => {
    expect(take(mixed, 0, 3, "eval").join("")).toBe("xyz")
  })
})
